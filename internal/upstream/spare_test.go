package upstream_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// crowded is an upstream with few slots, all of which are taken by 192.0.2.1, of which more
// requests wait. It answers a request when it is told to.
type crowded struct {
	t    *testing.T
	s    *service
	pool *upstream.Pool
	r    *route
	done chan got
	seen int // requests that next has looked at

	asked  int // requests that have no answer yet
	open   sync.Once
	opened chan bool // closed: it answers all requests

	mu    sync.Mutex
	gates map[string]chan bool // of requests
}

func newCrowded(t *testing.T, slots, waiting int) *crowded {
	t.Helper()
	c := &crowded{t: t, gates: make(map[string]chan bool), opened: make(chan bool),
		done: make(chan got, 100)}
	c.s = start(t, func(_ int, line string) string {
		select {
		case <-c.gate(line):
		case <-c.opened:
		}
		return line
	})
	t.Cleanup(c.goOn)
	pool, all := limited(t, c.s, 0, slots)
	c.pool, c.r = pool, all[0]
	for i := range slots + waiting {
		name := fmt.Sprint("crowd", i)
		if i < slots {
			c.ask("192.0.2.1", name)
			c.next(name)
		} else {
			c.waits("192.0.2.1", name)
		}
	}
	return c
}

func (c *crowded) gate(line string) chan bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gates[line] == nil {
		c.gates[line] = make(chan bool)
	}
	return c.gates[line]
}

// goOn lets it answer all requests.
func (c *crowded) goOn() { c.open.Do(func() { close(c.opened) }) }

// end lets it answer all requests, and waits for the answers.
func (c *crowded) end() {
	c.goOn()
	for ; c.asked > 0; c.asked-- {
		if g := <-c.done; g.err != nil {
			c.t.Error(g.err)
		}
	}
	if n := c.pool.Active(); n != 0 {
		c.t.Errorf("%d slots are taken", n)
	}
}

// ask sends a request of a client.
func (c *crowded) ask(from, line string) {
	c.asked++
	c.r.askFor(from, line, c.done)
}

// waits sends a request that has to wait for a slot.
func (c *crowded) waits(from, line string) {
	c.t.Helper()
	n := c.pool.Waiting()
	c.ask(from, line)
	wait.Until(c.t, line+" waits", func() bool { return c.pool.Waiting() == n+1 })
}

// next waits for the next request that comes to the upstream.
func (c *crowded) next(line string) {
	c.t.Helper()
	wait.Until(c.t, line+" comes", func() bool { return len(c.s.seen()) > c.seen })
	if got := c.s.seen()[c.seen]; got != line {
		c.t.Fatalf("%s comes next, want %s", got, line)
	}
	c.seen++
}

// answer answers a request that has come.
func (c *crowded) answer(line string) {
	c.t.Helper()
	c.gate(line) <- true
	c.asked--
	if g := <-c.done; g.text != line {
		c.t.Fatal(line, ": ", g)
	}
}

// TestLastSlotIsSpare: where a crowd of one client waits and others come, the first of these gets
// the next slot that becomes free, and from then on each finds one free, and needs not wait until
// one of the crowd has its answer. The crowd had all slots while it was alone.
func TestLastSlotIsSpare(t *testing.T) {
	c := newCrowded(t, 4, 8)
	defer c.end()
	c.waits("192.0.2.2", "first") // at the end of a queue of nine
	c.answer("crowd0")
	c.next("first")
	c.answer("first") // and none of the crowd takes its slot

	c.ask("192.0.2.3", "second")
	c.next("second")
	c.waits("192.0.2.3", "third") // its client network has a slot: it waits for its turn
	c.answer("crowd1")            // and none takes its slot, the last
	c.ask("2001:db8::1", "fourth")
	c.next("fourth")
	c.answer("fourth")
	c.answer("second") // two are free: one is for third, whose client network has none
	c.next("third")
	c.answer("third") // two again
	c.next("crowd4")
}

// TestTwoAreSpare: of eight slots two are spare when one was not enough for the newcomers.
func TestTwoAreSpare(t *testing.T) {
	c := newCrowded(t, 8, 8)
	defer c.end()
	c.waits("192.0.2.2", "first")
	c.answer("crowd0")
	c.next("first")
	c.waits("192.0.2.3", "second")
	c.answer("crowd1")
	c.next("second")
	c.answer("first")
	c.answer("second") // none of the crowd takes either's slot
	for i := range 2 {
		c.ask(fmt.Sprint("192.0.2.", i+4), fmt.Sprint("newcomer", i))
		c.next(fmt.Sprint("newcomer", i))
	}
	c.answer("newcomer0")
	c.answer("newcomer1")
	c.answer("crowd2") // three are free
	c.next("crowd8")
}

// TestProxiesHaveAll: two clients that always have slots, such as proxies in front, keep none
// spare.
func TestProxiesHaveAll(t *testing.T) {
	c := newCrowded(t, 4, 0)
	defer c.end()
	c.waits("192.0.2.2", "a")
	c.waits("192.0.2.2", "b")
	c.answer("crowd0")
	c.next("a")
	upstream.EndSpare(c.pool)
	c.answer("crowd1")
	c.next("b")
	c.waits("192.0.2.1", "crowd4")
	c.waits("192.0.2.2", "c")
	c.answer("a")
	c.next("crowd4")
	c.answer("crowd2")
	c.next("c")
}

// TestSpareOfAnotherRoute: a route without max_conns has no limit where slots are spare for
// another.
func TestSpareOfAnotherRoute(t *testing.T) {
	c := newCrowded(t, 4, 1)
	defer c.end()
	c.waits("192.0.2.2", "other")
	c.answer("crowd0")
	c.next("other")
	c.answer("other") // one is spare
	r := newRoute(t, c.pool, []string{c.s.address}, nil)
	done := make(chan got, 1)
	r.askFor("192.0.2.1", "unlimited", done)
	c.next("unlimited")
	c.gate("unlimited") <- true
	if g := <-done; g.err != nil {
		t.Error(g.err)
	}
}

// TestSpareEnds: the crowd has all slots again when no other has come for a while.
func TestSpareEnds(t *testing.T) {
	defer upstream.SpareFor(20 * time.Millisecond)()
	c := newCrowded(t, 4, 2)
	defer c.end()
	c.waits("192.0.2.2", "other")
	c.answer("crowd0")
	c.next("other")
	c.answer("other")
	c.next("crowd4") // the time is over, and nothing else happens
}

// TestFewSlotsHaveNoneToSpare: of two or three slots a crowd gets all, though others come. These
// come first.
func TestFewSlotsHaveNoneToSpare(t *testing.T) {
	for n := 2; n < 4; n++ {
		c := newCrowded(t, n, 2)
		c.waits("192.0.2.2", "other")
		c.answer("crowd0")
		c.next("other")
		c.answer("other")
		c.next(fmt.Sprint("crowd", n))
		c.end()
	}
}

// TestSpareBefore: where clients came one after the other lately, a crowd gets all slots but one
// from its first request on.
func TestSpareBefore(t *testing.T) {
	c := newCrowded(t, 4, 0)
	defer c.end()
	for i := range 4 {
		c.answer(fmt.Sprint("crowd", i))
	}
	for _, from := range []string{"192.0.2.2", "192.0.2.1"} {
		c.ask(from, from)
		c.next(from)
		c.answer(from)
	}
	for i := range 3 {
		c.ask("192.0.2.3", fmt.Sprint(i))
		c.next(fmt.Sprint(i))
	}
	c.ask("192.0.2.3", "last")
	c.ask("192.0.2.4", "other")
	c.next("other")
}

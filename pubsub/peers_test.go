package pubsub_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// exchange carries presence between the hubs of a test, and loses what the test wants.
type exchange struct {
	mu    sync.Mutex
	ports []*port
	sent  int // messages
	lose  func() bool
}

// port is the engine of one hub.
type port struct {
	*exchange
	hub  *pubsub.Hub
	in   chan *pubsub.Message
	feed *pubsub.Feed
	cut  bool
}

// connect makes an engine for a hub.
func (x *exchange) connect(t *testing.T, hub *pubsub.Hub) *port {
	p := &port{exchange: x, hub: hub, in: make(chan *pubsub.Message, 1<<12)}
	hub.Connect(p)
	x.mu.Lock()
	x.ports = append(x.ports, p)
	x.mu.Unlock()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for m := range p.in {
			x.mu.Lock()
			to := p.feed
			x.mu.Unlock()
			switch {
			case m == nil:
				to.Loaded(nil)
			case to != nil:
				copied := &pubsub.Message{ID: m.ID, Time: m.Time, Keep: m.Keep, Data: m.Data}
				to.Deliver([]*pubsub.Message{copied})
			}
		}
	}()
	t.Cleanup(func() {
		p.die()
		hub.Disconnecting()
		close(p.in)
		<-ended
	})
	return p
}

func (p *port) Follow(_ string, to *pubsub.Feed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feed = to
	p.in <- nil
}

func (p *port) Unfollow(string) {}

func (p *port) Publish(_ string, m *pubsub.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent++
	for _, o := range p.ports {
		if !p.cut && !o.cut && (p.lose == nil || !p.lose()) {
			o.in <- m
		}
	}
}

// die makes it send and receive nothing more, without a word to its hub: as a process that was
// killed.
func (p *port) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.ports = slices.DeleteFunc(p.ports, func(o *port) bool { return o == p })
}

// setCut cuts it off, or undoes that, as an engine that has noticed it.
func (p *port) setCut(cut bool) {
	p.mu.Lock()
	p.cut = cut
	p.mu.Unlock()
	p.hub.SetCarried(!cut)
}

// member is a hub of an exchange, with a subscriber.
type member struct {
	pubsub.Hub
	port *port
	*pubsub.Presence

	observed sync.Mutex
	rooms.Observer
}

func (x *exchange) member(t *testing.T, ls *loops.Loops) *member {
	m := new(member)
	m.port = x.connect(t, &m.Hub)
	m.Presence = m.Hub.Topic("room").Presence()
	ls.Go(0, func(th *loop.Thread) {
		sub := m.Subscribe(th, pubsub.Options{Queue: 1 << 12})
		for {
			got, err := sub.Receive(-1)
			if err != nil {
				return
			}
			m.observed.Lock()
			m.Take(got)
			m.observed.Unlock()
		}
	})
	return m
}

// sees waits until the member's subscriber sees these.
func (m *member) sees(t *testing.T, stale string, want ...string) {
	t.Helper()
	var got string
	defer func() {
		if t.Failed() {
			t.Logf("it sees %s, want %q, stale %q", got, want, stale)
		}
	}()
	wait.Until(t, "a list", func() bool {
		m.observed.Lock()
		defer m.observed.Unlock()
		got = m.String()
		return m.Names() == strings.Join(want, " ") && m.Stale == stale
	})
	m.observed.Lock()
	defer m.observed.Unlock()
	if len(m.Wrong) > 0 {
		t.Errorf("%q", m.Wrong)
	}
}

func TestPresenceOfProcesses(t *testing.T) {
	t.Parallel()
	ls := loops.Start(t, modes.Direct, nil, nil)
	x := new(exchange)
	one := x.member(t, ls)
	one.Join("Ann")
	one.sees(t, pubsub.CatchingUp, "Ann") // there may be others
	one.sees(t, "", "Ann")
	two := x.member(t, ls)
	two.Join("Bob")
	two.Join("Ann") // her second window
	one.sees(t, "", "Ann", "Bob")
	two.sees(t, "", "Ann", "Bob")
	one.Leave("Ann")
	one.Join("Cat")
	two.sees(t, "", "Ann", "Bob", "Cat")
	two.Leave("Ann")
	one.sees(t, "", "Bob", "Cat")

	// What one says, the other hears.
	one.Publish([]byte("typing"))
	wait.Until(t, "it is heard", func() bool {
		two.observed.Lock()
		defer two.observed.Unlock()
		return slices.Equal(two.Said, []string{"typing"})
	})

	// An outage keeps what is known, and says so.
	one.port.setCut(true)
	one.Publish([]byte("nobody hears it"))
	one.Join("Dan")
	one.Leave("Cat")
	two.Join("Eve")
	one.sees(t, pubsub.CutOff, "Bob", "Dan")
	one.port.setCut(false)
	one.sees(t, "", "Bob", "Dan", "Eve")
	two.sees(t, "", "Bob", "Dan", "Eve")

	// A process that has died is forgotten; one that ends says so itself.
	began := time.Now()
	one.port.die()
	two.sees(t, "", "Bob", "Eve")
	if took := time.Since(began); took < pubsub.Lease()/2 {
		t.Errorf("forgotten after %v", took)
	}
	three := x.member(t, ls)
	three.sees(t, "", "Bob", "Eve")
	two.Disconnecting()
	three.sees(t, "")
	if two.Said = nil; len(three.Said) > 0 {
		t.Errorf("%q", three.Said)
	}
}

// However many messages are lost, and whoever is cut off, subscribers see nothing that does not
// fit, and in the end the same.
func TestPresenceIsExact(t *testing.T) {
	t.Parallel()
	ls := loops.Start(t, modes.Direct, nil, nil)
	x := new(exchange)
	var all []*member
	for range 4 {
		all = append(all, x.member(t, ls))
	}
	x.mu.Lock()
	x.lose = func() bool { return rand.IntN(5) == 0 }
	x.mu.Unlock()
	joined := make([]map[string]int, len(all))
	for round := range 300 {
		i := rand.IntN(len(all))
		if joined[i] == nil {
			joined[i] = make(map[string]int)
		}
		name := fmt.Sprint("Person-", rand.IntN(20))
		if rand.IntN(2) == 0 {
			joined[i][name]++
			all[i].Join(name)
		} else {
			joined[i][name] = max(joined[i][name]-1, 0)
			all[i].Leave(name)
		}
		if round%50 == 0 {
			all[i].port.setCut(true)
		} else if round%50 == 25 {
			for _, m := range all {
				m.port.setCut(false)
			}
		}
		time.Sleep(3 * time.Millisecond)
	}
	x.mu.Lock()
	x.lose = nil
	x.mu.Unlock()
	var want []string
	for n := range 20 {
		name := fmt.Sprint("Person-", n)
		if slices.ContainsFunc(joined, func(of map[string]int) bool { return of[name] > 0 }) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	for _, m := range all {
		m.port.setCut(false)
		m.sees(t, "", want...)
	}
}

// A room with more names than a note has.
func TestPresenceOfManyNames(t *testing.T) {
	t.Parallel()
	ls := loops.Start(t, modes.Direct, nil, nil)
	x := new(exchange)
	one := x.member(t, ls)
	var want []string
	for n := range 5000 {
		want = append(want, fmt.Sprintf("Person with a long name %04d", n))
		one.Join(want[n])
	}
	one.sees(t, "", want...)
	two := x.member(t, ls)
	two.sees(t, "", want...)
	for n := range 5000 {
		one.Leave(want[n])
	}
	two.sees(t, "")
}

func FuzzNote(f *testing.F) {
	for _, s := range []string{"", "a\x05", "q\x00\x03abc", "g\x01",
		"m\x01\x00\x01\x01r\x01\x03Ann\x00\x00",
		"c\x02\x01r\x01\x03Ann\x01\x03Bob\x01\x02hi", "c\x02\x01r\xff\xff\xff\xff\x0f"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		again, err := pubsub.ParseNote(data)
		if err != nil {
			return
		}
		if twice, err := pubsub.ParseNote(again); err != nil || !bytes.Equal(again, twice) {
			t.Errorf("%q, %q, %v", again, twice, err)
		}
	})
}

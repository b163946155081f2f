package upstream_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// soon returns what comes from ch.
func soon[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(wait.Patience):
		t.Error(what, " has not come")
	}
	return v
}

// TestSlowNameService: while a name is looked up again, requests go on to the old addresses, also
// the one that has begun it.
func TestSlowNameService(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	startAt(t, "127.0.0.1:"+port, says("old"))
	startAt(t, "127.0.0.2:"+port, says("new"))
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"app.test:" + port},
		func(s *upstream.Settings) { s.ConnectTimeout = time.Hour })
	if g := r.get("0"); g.text != "old" {
		t.Fatal(g)
	}
	names.gate.Lock()
	names.resolveTo("127.0.0.2")
	pool.ForgetNames()
	done := make(chan got, 2)
	for range 2 {
		r.ask("1", false, done)
		if g := soon(t, "an answer", done); g.text != "old" || !pool.Pending("app.test") {
			t.Error(g, " at the end of the look-up")
		}
	}
	names.gate.Unlock()
	wait.Until(t, "the new address is asked", func() bool { return r.get("2").text == "new" })
}

// TestWatchEndsBesideNames: the checks of a name end at once, though a look-up has not.
func TestWatchEndsBesideNames(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	pool := new(upstream.Pool)
	g := must.Get(pool.Group(upstream.Settings{Addresses: []string{"app.test:80"},
		Check: &upstream.Check{Interval: time.Hour, Timeout: time.Hour, Rises: 1, Falls: 1,
			Run:     func(net.Conn, string) error { return nil },
			Changed: func(string, bool, error) {}}}))(t)
	names.gate.Lock()
	defer names.gate.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool, 1)
	go func() { g.Watch(ctx); ended <- true }()
	wait.Until(t, "the name is asked for", func() bool { return names.asked.Load() > 0 })
	cancel()
	soon(t, "the end", ended)
	if !pool.Pending("app.test") {
		t.Error("it came with that of the look-up")
	}
}

// TestNameServiceIsSpared: where no address of a name works, not each request asks for the name.
func TestNameServiceIsSpared(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	r := newRoute(t, new(upstream.Pool), []string{"app.test:" + port}, nil)
	began := time.Now()
	r.get("0")
	once := names.asked.Load()
	for range 10 {
		if g := r.get("1"); g.err == nil {
			t.Error(g)
		}
	}
	seconds := int32(time.Since(began) / time.Second)
	if n := names.asked.Load(); n > once*(1+seconds) {
		t.Errorf("asked %d times in %d s, once for the first one", n, seconds)
	}
}

// TestNameLeavesOthers: a request that waits for the only address that works gets a slot at another
// one, which did not work lately, as soon as the name does not lead to the first one any more, and
// without any other request.
func TestNameLeavesOthers(t *testing.T) {
	defer upstream.AvoidFor(time.Hour)()
	names := new(nameService)
	names.resolveTo("127.0.0.1", "127.0.0.2")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	goOn := make(chan bool)
	busy := startAt(t, "127.0.0.1:"+port, func(int, string) string { <-goOn; return "hello" })
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"app.test:" + port}, func(s *upstream.Settings) { s.MaxConns = 1 })
	done, waits := make(chan got, 2), make(chan got, 1)
	for i := range 2 { // one of them finds out that nobody listens at the other address
		r.ask("0", false, done)
		busy.requests(t, i+1)
		goOn <- true
		answered(t, done)
	}
	if n := len(r.missed()); n != 1 {
		t.Fatal(n, " addresses were not reached")
	}
	startAt(t, "127.0.0.2:"+port, says("other"))
	r.ask("1", false, done)
	busy.requests(t, 3)
	r.ask("2", false, waits)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() > 0 })
	names.resolveTo("127.0.0.2")
	pool.LookUp()
	if g := soon(t, "its answer", waits); g.text != "other" {
		t.Error(g)
	}
	goOn <- true
	answered(t, done)
}

// TestManyAddresses: of a name with more addresses than are used, the same ones are, in whatever
// order the name service has them.
func TestManyAddresses(t *testing.T) {
	var all []string
	for i := range 300 {
		all = append(all, fmt.Sprintf("127.0.%d.%d", i/200, 1+i%200))
	}
	names := new(nameService)
	names.resolveTo(all...)
	startNames(t, names)
	pool := new(upstream.Pool)
	if _, err := pool.Group(upstream.Settings{Addresses: []string{"app.test:80"}}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		pool.LookUp()
		slices.Reverse(all)
		names.resolveTo(all...)
	}
	if n := pool.Version("app.test"); n != 1 {
		t.Errorf("the addresses have changed %d times", n)
	}
}

// TestOneTimer: however often idle connections are looked at, there is one next time.
func TestOneTimer(t *testing.T) {
	s := start(t, says("hello"))
	pool, r := limited(t, s, 1, 0)
	r[0].get("x")
	before := pool.Timer()
	pool.Age(0)
	if before.Stop() {
		t.Error("two timers run")
	}
	s.closed(t)
}

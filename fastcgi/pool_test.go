package fastcgi_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
)

// stepwise is an application that answers a request when it is told to.
func stepwise(t *testing.T) (*fcgitest.Upstream, chan<- bool) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		for {
			c.Read()
			<-goOn
			c.Reply(okHead + "hello")
		}
	})
	return up, goOn
}

// routes starts servers whose routes come from one registry, as those of a process do before and after a reload. Each
// has its own limit to the connections.
func routes(t *testing.T, up *fcgitest.Upstream, keep bool, limits ...int) (pool *fastcgi.Pool, all []*proxy) {
	r := new(handlers.Registry)
	pool = fastcgi.RegisterPool(r)
	for _, n := range limits {
		all = append(all, serveRoute(t, r, "/", []string{up.Address}, nil, func(s *fastcgi.Settings) {
			s.CheckFile, s.MaxConns, s.KeepConn, s.IdleTimeout = false, n, keep, 300*time.Millisecond
			s.ReadTimeout = time.Minute
		}))
	}
	return pool, all
}

// ask has a route ask for a script. Its answer goes to done.
func (p *proxy) ask(name string, done chan<- got) {
	go func() { done <- p.get("/" + name + ".php") }()
}

func requests(t *testing.T, up *fcgitest.Upstream, n int) {
	t.Helper()
	if !up.Wait(5*time.Second, func(_, _, requests int) bool { return requests == n }) {
		t.Fatalf("%d requests, want %d", len(up.Requests()), n)
	}
}

// TestRoomWithoutQueue: a route that has no queue needs none where it has room, though another's requests wait.
func TestRoomWithoutQueue(t *testing.T) {
	up, goOn := stepwise(t)
	r := new(handlers.Registry)
	pool := fastcgi.RegisterPool(r)
	route := func(conns, queue int) *proxy {
		return serveRoute(t, r, "/", []string{up.Address}, nil, func(s *fastcgi.Settings) {
			s.CheckFile, s.MaxConns, s.MaxQueue = false, conns, queue
			s.ReadTimeout = time.Minute
		})
	}
	low, high := route(1, 1), route(2, 0)
	done := make(chan got)
	low.ask("0", done)
	requests(t, up, 1)
	low.ask("1", done)
	eventually(t, "it waits", func() bool { return pool.Waiting() == 1 })
	high.ask("2", done)
	requests(t, up, 2)
	if g := high.get("/3.php"); g.status != 503 {
		t.Error("beyond the limit, without a queue: ", g)
	}
	for range 3 {
		goOn <- true
		if g := <-done; g.body != "hello" {
			t.Error(g)
		}
	}
}

// TestOneCap: what several routes have with one address is counted together, and those who wait are served in the order
// of their coming, whichever route they come by.
func TestOneCap(t *testing.T) {
	up, goOn := stepwise(t)
	pool, p := routes(t, up, false, 1, 1, 1)
	done := make(chan got)
	const n = 7
	for i := range n {
		p[i%len(p)].ask(fmt.Sprint(i), done)
		// The next one comes when this one has its place, or is in the queue.
		if i == 0 {
			requests(t, up, 1)
		} else {
			eventually(t, "it waits", func() bool { return pool.Waiting() == i })
		}
	}
	for i := range n {
		requests(t, up, i+1)
		goOn <- true
		if g := <-done; g.body != "hello" {
			t.Error(g)
		}
	}
	var order []string
	for _, r := range up.Requests() {
		order = append(order, r.Get("SCRIPT_NAME"))
	}
	if !slices.IsSorted(order) {
		t.Error(order)
	}
}

// TestUnequalCaps: each route heeds its own limit, and whoever waits for that holds up nobody with a higher one.
func TestUnequalCaps(t *testing.T) {
	up, goOn := stepwise(t)
	pool, p := routes(t, up, false, 1, 2)
	low, high := p[0], p[1]
	done := make(chan got)
	high.ask("0", done)
	requests(t, up, 1)
	low.ask("1", done)
	eventually(t, "it waits", func() bool { return pool.Waiting() == 1 })
	high.ask("2", done)
	requests(t, up, 2) // past the one that waits
	high.ask("3", done)
	eventually(t, "it waits", func() bool { return pool.Waiting() == 2 })
	goOn <- true
	<-done
	requests(t, up, 3) // there is room for one by the limit of the later one alone
	if n := pool.Waiting(); n != 1 {
		t.Error(n, " wait")
	}
	goOn <- true
	goOn <- true
	<-done
	<-done
	requests(t, up, 4)
	goOn <- true
	<-done
	if last := up.Requests()[3].Get("SCRIPT_NAME"); last != "/1.php" {
		t.Error(last)
	}
}

// TestKeptForAll: a connection that one route has kept is another's, and there are no more of them for more routes.
func TestKeptForAll(t *testing.T) {
	up := fcgitest.Start(t, "unix", answers("hello"))
	_, p := routes(t, up, true, 0, 0, 0)
	for i := range 9 {
		if g := p[i%len(p)].get("/x.php"); g.body != "hello" {
			t.Error(g)
		}
	}
	if n := up.Accepted(); n != 1 {
		t.Error(n, " connections")
	}
	if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("an idle connection stays open")
	}

	// As many at once, and max_idle of them are kept.
	up, goOn := stepwise(t)
	pool, p := routes(t, up, true, 0, 0, 0)
	done := make(chan got)
	for i := range 6 {
		p[i%len(p)].ask("x", done)
	}
	requests(t, up, 6)
	for range 6 {
		goOn <- true
		if g := <-done; g.body != "hello" {
			t.Error(g)
		}
	}
	if n := pool.Idle(); n > fastcgi.Defaults.MaxIdle {
		t.Error(n, " idle connections")
	}
	if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("idle connections stay open")
	}
}

package fastcgi_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
)

// crowd starts n upstreams that answer with their number.
func crowd(t *testing.T, n int) (ups []*fcgitest.Upstream, addresses []string) {
	for i := range n {
		up := fcgitest.Start(t, "unix", answers(fmt.Sprint(i)))
		ups, addresses = append(ups, up), append(addresses, up.Address)
	}
	return ups, addresses
}

func bodies(p *proxy, n int) (all string) {
	for range n {
		all += p.get("/x.php").body
	}
	return all
}

func TestTurns(t *testing.T) {
	_, a := crowd(t, 3)
	if got := bodies(serve(t, a, nil), 6); got != "012012" {
		t.Error(got)
	}
	a[1] += " weight=2"
	if got := bodies(serve(t, a, nil), 8); got != "10211021" {
		t.Error("weights: ", got)
	}
	a[0] += " backup"
	if got := bodies(serve(t, a, nil), 6); strings.Contains(got, "0") {
		t.Error("backup: ", got)
	}
}

func TestLeastConnections(t *testing.T) {
	goOn := make(chan bool)
	slow := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); <-goOn; c.Reply(okHead + "0") })
	_, a := crowd(t, 1)
	p := serve(t, append([]string{slow.Address}, a...), func(s *fastcgi.Settings) {
		s.Balance, s.ReadTimeout = "least_conn", time.Minute
	})
	done := make(chan got)
	go func() { done <- p.get("/x.php") }()
	slow.Wait(5*time.Second, func(_, _, requests int) bool { return requests == 1 })
	if got := bodies(p, 5); got != "00000" {
		t.Error(got)
	}
	close(goOn)
	<-done
}

// TestOthersAreTried: of several upstreams those that cannot be reached are passed over, whatever the method, and not
// asked again for a while.
func TestOthersAreTried(t *testing.T) {
	ups, a := crowd(t, 2)
	a = []string{fcgitest.Nobody(t, "missing"), a[0], fcgitest.Nobody(t, "tcp"), a[1] + " backup"}
	p := serve(t, a, nil)
	for range 6 {
		if g := p.request("POST /x.php", nil, "body"); g.status != 200 || g.body != "0" {
			t.Error(g)
		}
	}
	if n := strings.Count(p.log.String(), "not reached"); n != 2 {
		t.Errorf("%d times: %s", n, p.log)
	}
	ups[0].Stop()
	for range 3 {
		if g := p.request("POST /x.php", nil, "body"); g.status != 200 || g.body != "1" {
			t.Error("backup: ", g)
		}
	}
	ups[1].Stop()
	if g := p.get("/x.php"); g.status != 502 {
		t.Error("nobody: ", g)
	}
	fcgitest.Start(t, "unix", answers("again"), fcgitest.At(ups[0].Address))
	if g := p.get("/x.php"); g.body != "again" {
		t.Error("back again: ", g)
	}
}

// TestRepeated: what was sent is sent again only where that does no harm, and once.
func TestRepeated(t *testing.T) {
	cut := func(c *fcgitest.Conn) { c.Read(); c.Close() }
	for _, tt := range []struct {
		method        string
		status, tries int
	}{{"GET", 200, 2}, {"HEAD", 200, 2}, {"OPTIONS", 200, 2}, {"POST", 502, 1}, {"PUT", 502, 1}, {"DELETE", 502, 1},
		{"PATCH", 502, 1}} {
		one := fcgitest.Start(t, "unix", cut)
		two := fcgitest.Start(t, "unix", answers("hello"))
		p := serve(t, []string{one.Address, two.Address}, nil)
		g := p.request(tt.method+" /x.php", nil, "")
		if n := len(one.Requests()) + len(two.Requests()); g.status != tt.status || n != tt.tries {
			t.Errorf("%s: %d, %d tries", tt.method, g.status, n)
		}
	}
	one, two, three := fcgitest.Start(t, "unix", cut), fcgitest.Start(t, "unix", cut), fcgitest.Start(t, "unix",
		answers(""))
	p := serve(t, []string{one.Address, two.Address, three.Address}, nil)
	if g := p.get("/x.php"); g.status != 502 || len(three.Requests()) != 0 {
		t.Error("a third time: ", g)
	}
	heard := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); c.Stdout("X"); c.Close() })
	p = serve(t, []string{heard.Address, three.Address}, nil)
	if g := p.get("/x.php"); g.status != 502 || len(three.Requests()) != 0 {
		t.Error("after a byte of answer: ", g)
	}
	// A body goes with it again.
	one = fcgitest.Start(t, "unix", cut)
	echo := fcgitest.Start(t, "unix",
		func(c *fcgitest.Conn) { c.ReadHead(); c.Stdout(okHead); c.Echo(); c.End(); c.Hang() })
	p = serve(t, []string{one.Address, echo.Address}, nil)
	if g := p.request("GET /x.php", nil, strings.Repeat("x", 200000)); g.body != strings.Repeat("x", 200000) {
		t.Error("a body: ", g.status, len(g.body))
	}
}

// TestKept: a connection that is kept serves what may be repeated, and is closed when nobody wants it.
func TestKept(t *testing.T) {
	up := fcgitest.Start(t, "unix", answers("hello"))
	p := serve(t, []string{up.Address},
		func(s *fastcgi.Settings) { s.KeepConn = true; s.IdleTimeout = 200 * time.Millisecond })
	for range 5 {
		p.get("/x.php")
	}
	if n := up.Accepted(); n != 1 {
		t.Error(n, " connections for five requests")
	}
	for range 5 {
		p.request("POST /x.php", nil, "body")
		// Each takes the place of one that was kept, which may have the only process there is.
		if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open <= 1 }) {
			t.Error(up.Open(), " idle connections")
		}
	}
	if n := up.Accepted(); n != 6 {
		t.Error(n, " connections after five posts")
	}
	if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("idle connections stay open")
	}

	up = fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead + "hello"); c.End() })
	p = serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.KeepConn = true })
	for range 3 {
		if g := p.get("/x.php"); g.status != 200 || g.body != "hello" {
			t.Error("closed when it is taken: ", g, p.log)
		}
	}

	// One that closes upon the next request: that is repeated on a new connection.
	up = fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Answer(okHead + "hello")
		c.ReadRaw(1)
	})
	p = serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.KeepConn = true })
	for range 3 {
		if g := p.get("/x.php"); g.status != 200 || g.body != "hello" {
			t.Error("closed when it is used: ", g, p.log)
		}
	}
}

// TestQueue: no more connections than max_conns, and places go to those who wait in the order of their coming.
func TestQueue(t *testing.T) {
	for _, conns := range []int{1, 3} {
		next := make(chan bool)
		var now, most atomic.Int32
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			most.Store(max(most.Load(), now.Add(1)))
			<-next
			now.Add(-1)
			c.Reply(okHead + "hello")
		})
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.MaxConns, s.ReadTimeout = conns, time.Minute
		})
		var all sync.WaitGroup
		for i := range 10 {
			c := p.Dial()
			fmt.Fprintf(c, "GET /%d.php HTTP/1.1\r\nHost: a\r\n\r\n", i)
			up.Wait(20*time.Millisecond, func(_, _, requests int) bool { return requests == i+1 }) // it is in the queue then
			all.Go(func() {
				if g := read(bufio.NewReader(c), "GET"); g.body != "hello" {
					t.Error(g)
				}
			})
		}
		for range 10 {
			next <- true
		}
		all.Wait()
		if n := int(most.Load()); n != conns {
			t.Errorf("%d connections, allowed are %d", n, conns)
		}
		var order []string
		for _, r := range up.Requests() {
			order = append(order, r.Get("SCRIPT_NAME"))
		}
		if len(order) != 10 || conns == 1 && !slices.IsSorted(order) {
			t.Error(order)
		}
	}
}

// TestKeptOldest: of several that are kept the oldest is taken, as the latest may belong to a script that runs on behind
// its answer.
func TestKeptOldest(t *testing.T) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		for {
			r := c.Read()
			if r.Get("SCRIPT_NAME") == "/wait.php" {
				<-goOn
			}
			c.Reply(okHead + fmt.Sprint(c.Number))
		}
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
		s.KeepConn, s.IdleTimeout, s.ReadTimeout = true, 300*time.Millisecond, time.Minute
	})
	done := make(chan got)
	p.ask("wait", done)
	requests(t, up, 1)
	p.get("/x.php")
	goOn <- true
	<-done
	if got := bodies(p, 4); got != "2121" {
		t.Error(got)
	}
}

func TestQueueTimesOut(t *testing.T) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); <-goOn; c.Reply(okHead + "hello") })
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
		s.MaxConns, s.ReadTimeout, s.QueueTimeout = 1, time.Minute, 50*time.Millisecond
	})
	done := make(chan got)
	go func() { done <- p.get("/x.php") }()
	up.Wait(5*time.Second, func(_, _, requests int) bool { return requests == 1 })
	if g := p.get("/x.php"); g.status != 503 || g.header.Get("Retry-After") == "" {
		t.Error(g)
	}
	close(goOn)
	if g := <-done; g.body != "hello" {
		t.Error(g)
	}
}

// TestBacklog: a UNIX socket whose queue is full is tried again until connect_timeout.
func TestBacklog(t *testing.T) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); <-goOn; c.Reply(okHead + "hello") },
		fcgitest.Workers(1), fcgitest.Backlog(0))
	p := serve(t, []string{up.Address},
		func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute; s.ConnectTimeout = 300 * time.Millisecond })
	results := make(chan got)
	for range 4 {
		go func() { results <- p.get("/x.php") }()
	}
	for range 2 {
		if g := <-results; g.status != 503 {
			t.Error(g, p.log)
		}
	}
	close(goOn)
	for range 2 {
		if g := <-results; g.body != "hello" {
			t.Error(g, p.log)
		}
	}
}

// TestBurst: of more requests than there are places, those in the queue wait for longer than
// connecting may take, and all are answered.
func TestBurst(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Sleep(10 * time.Millisecond)
		c.Reply(okHead + "hello")
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
		s.MaxConns, s.ReadTimeout, s.ConnectTimeout = 2, time.Minute, 50*time.Millisecond
	})
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if g := p.get("/x.php"); g.body != "hello" || g.err != nil {
				t.Error(g.status, g.err)
			}
		})
	}
	all.Wait()
}

package fastcgi_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// crowd starts n upstreams that answer with their number.
func crowd(t *testing.T, n int) (ups []*fcgitest.Upstream, addresses []string) {
	for i := range n {
		up := fcgitest.Start(t, "unix", answers(fmt.Sprint(i)))
		ups, addresses = append(ups, up), append(addresses, up.Address)
	}
	return ups, addresses
}

// TestOnePool: routes of one registry share their kept connections. A process has one registry,
// before and after a reload.
func TestOnePool(t *testing.T) {
	up := fcgitest.Start(t, "unix", answers("hello"))
	r := registry()
	var routes []*proxy
	for range 3 {
		routes = append(routes, serveRoute(t, r, "/", []string{up.Address}, nil,
			func(s *fastcgi.Settings) {
				s.CheckFile, s.KeepConn, s.IdleTimeout = false, true, 3*time.Second
			}))
	}
	for i := range 9 {
		if g := routes[i%len(routes)].get("/x.php"); g.body != "hello" {
			t.Error(g)
		}
	}
	if n := up.Accepted(); n != 1 {
		t.Error(n, " connections")
	}
}

// TestRepeated: a request is sent again only if its method allows that, to retry_tries addresses.
func TestRepeated(t *testing.T) {
	cut := func(c *fcgitest.Conn) { c.Read(); c.Close() }
	for _, tt := range []struct {
		method        string
		status, tries int
	}{{"GET", 200, 2}, {"HEAD", 200, 2}, {"OPTIONS", 200, 2}, {"POST", 502, 1}, {"PUT", 502, 1},
		{"DELETE", 502, 1},
		{"PATCH", 502, 1}, {"PROPFIND", 502, 1}} {
		one := fcgitest.Start(t, "unix", cut)
		two := fcgitest.Start(t, "unix", answers("hello"))
		p := serve(t, []string{one.Address, two.Address}, nil)
		g := p.request(tt.method+" /x.php", nil, "")
		if n := len(one.Requests()) + len(two.Requests()); g.status != tt.status || n != tt.tries {
			t.Errorf("%s: %d, %d tries", tt.method, g.status, n)
		}
	}
	one, two, three := fcgitest.Start(t, "unix", cut), fcgitest.Start(t, "unix", cut),
		fcgitest.Start(t, "unix", answers(""))
	p := serve(t, []string{one.Address, two.Address, three.Address}, func(s *fastcgi.Settings) {
		s.RetryTries = 2
	})
	if g := p.get("/x.php"); g.status != 502 || len(three.Requests()) != 0 {
		t.Error("a third time: ", g)
	}
	heard := fcgitest.Start(t, "unix",
		func(c *fcgitest.Conn) { c.Read(); c.Stdout("X"); c.Close() })
	p = serve(t, []string{heard.Address, three.Address}, nil)
	if g := p.get("/x.php"); g.status != 502 || len(three.Requests()) != 0 {
		t.Error("after a byte of answer: ", g)
	}
	// The body is sent again, too.
	one = fcgitest.Start(t, "unix", cut)
	echo := fcgitest.Start(t, "unix",
		func(c *fcgitest.Conn) { c.ReadHead(); c.Stdout(okHead); c.Echo(); c.End(); c.Hang() })
	p = serve(t, []string{one.Address, echo.Address}, nil)
	if g := p.request("GET /x.php", nil, strings.Repeat("x", 200000)); g.body != strings.Repeat("x",
		200000) {
		t.Error("a body: ", g.status, len(g.body))
	}
}

// TestIdleConnections: a kept connection serves repeatable methods, and is closed when no request
// takes it in time.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	up := fcgitest.Start(t, "unix", answers("hello"))
	p := serve(t, []string{up.Address},
		func(s *fastcgi.Settings) { s.KeepConn = true; s.IdleTimeout = 3 * time.Second })
	for range 5 {
		p.get("/x.php")
	}
	if n := up.Accepted(); n != 1 {
		t.Error(n, " connections for five requests")
	}
	for range 5 {
		p.request("POST /x.php", nil, "body")
		// Each closes the kept one, which may have the only process there is.
		if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open <= 1 }) {
			t.Error(up.Open(), " idle connections")
		}
	}
	if n := up.Accepted(); n != 6 {
		t.Error(n, " connections after five posts")
	}
	if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("idle connections stay open")
	}

	up = fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stdout(okHead + "hello")
		c.End()
	})
	p = serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.KeepConn = true })
	for range 3 {
		if g := p.get("/x.php"); g.status != 200 || g.body != "hello" {
			t.Error("closed when it is taken: ", g, p.log)
		}
	}

	// This one closes upon the next request, which is sent again on a new connection.
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

func TestQueueTimesOut(t *testing.T) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		<-goOn
		c.Reply(okHead + "hello")
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
		s.MaxConns, s.ReadTimeout, s.QueueTimeout = 1, time.Minute, 50*time.Millisecond
	})
	done := make(chan got)
	go func() { done <- p.get("/x.php") }()
	up.Wait(wait.Patience, func(_, _, requests int) bool { return requests == 1 })
	if g := p.get("/x.php"); g.status != 503 || g.header.Get("Retry-After") == "" {
		t.Error(g)
	}
	close(goOn)
	if g := <-done; g.body != "hello" {
		t.Error(g)
	}
}

// TestBacklog: while the queue of a UNIX socket is full, the call tries again, until
// connect_timeout.
func TestBacklog(t *testing.T) {
	goOn := make(chan bool)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		<-goOn
		c.Reply(okHead + "hello")
	},
		fcgitest.Workers(1), fcgitest.Backlog(0))
	p := serve(t, []string{up.Address},
		func(s *fastcgi.Settings) {
			s.ReadTimeout, s.ConnectTimeout = time.Minute, 300*time.Millisecond
		})
	results := make(chan got)
	ask := func() { results <- p.get("/x.php") }
	go ask()
	up.Wait(wait.Patience, func(_, _, requests int) bool { return requests == 1 })
	for range 3 { // one finds room in the queue
		go ask()
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

// TestBroken: an upstream that accepts connections and does not answer is passed over after a
// while, for methods that are not sent again, too.
func TestBroken(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]fcgitest.Script{
		"ends":  func(c *fcgitest.Conn) { c.Read(); c.Close() },
		"hangs": func(c *fcgitest.Conn) { c.Read(); c.NeverRead() },
	} {
		for _, balance := range []string{"round_robin", "least_conn"} {
			t.Run(name+"/"+balance, func(t *testing.T) {
				t.Parallel()
				bad := fcgitest.Start(t, "unix", script)
				_, a := crowd(t, 1)
				p := serve(t, []string{bad.Address, a[0]}, func(s *fastcgi.Settings) {
					if s.Balance = balance; name == "hangs" {
						s.ReadTimeout = 3 * time.Second
					}
				})
				good := 0
				for range 20 {
					if p.request("POST /x.php", nil, "body").status == 200 {
						good++
					}
				}
				if good != 17 || len(bad.Requests()) != 3 {
					t.Errorf("%d answers, %d requests", good, len(bad.Requests()))
				}
			})
		}
	}
}

// TestBrokenScript: single failures between answers are not the upstream's.
func TestBrokenScript(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		if r := c.Read(); r.Get("SCRIPT_NAME") == "/bad.php" {
			c.Close()
		}
		c.Reply(okHead + "0")
	})
	_, a := crowd(t, 2)
	p := serve(t, []string{up.Address, a[1] + " backup"}, nil)
	for range 4 {
		p.request("POST /bad.php", nil, "body")
		p.request("POST /bad.php", nil, "body")
		if g := p.get("/x.php"); g.body != "0" {
			t.Error(g)
		}
	}
}

// TestExhausted: if this process has no descriptor left, no upstream is at fault.
func TestExhausted(t *testing.T) {
	var addresses []string
	for range 2 {
		ln := must.Get(net.Listen("unix", t.TempDir()+"/s"))(t) // the kernel accepts
		defer ln.Close()
		addresses = append(addresses, "unix:"+ln.Addr().String())
	}
	p := serve(t, addresses, func(s *fastcgi.Settings) { s.ReadTimeout = fcgitest.Timeout })
	c := p.Dial()
	r := bufio.NewReader(c)
	ask := func(method string) got {
		fmt.Fprintf(c, "%s /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", method)
		return read(r, method)
	}
	if g := ask("TRACE"); g.status != 405 { // the connection is there
		t.Fatal(g)
	}
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = 200
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	// Descriptors of earlier tests may be closed at any moment, which leaves room for a connection.
	wait.Until(t, "no descriptor is left", func() bool {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			files = append(files, f)
		}
		g := ask("POST")
		if g.status == 503 && g.header.Get("Retry-After") == "" || g.status != 503 &&
			g.status != 504 {
			t.Error(g)
		}
		return g.status == 503
	})
	if log := p.log.String(); strings.Contains(log, "not reached") {
		t.Error(log)
	}
}

func TestNobodyListens(t *testing.T) {
	for _, network := range []string{"unix", "missing", "tcp", "tcp6"} {
		for _, line := range []string{"GET /x.php", "POST /x.php"} {
			p := serve(t, []string{fcgitest.Nobody(t, network)}, nil)
			if g := p.request(line, nil, "body"); g.status != 502 ||
				!strings.Contains(p.log.String(), "connect") {
				t.Errorf("%s: %s: %d, %v; log %s", network, line, g.status, g.err, p.log)
			}
		}
	}
}

// TestNames: the name of an upstream is looked up.
func TestNames(t *testing.T) {
	up := fcgitest.Start(t, "tcp", answers("hello"))
	_, port, err := net.SplitHostPort(up.Address)
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, []string{"localhost:" + port}, func(s *fastcgi.Settings) { s.KeepConn = true })
	for range 3 {
		if g := p.get("/x.php"); g.body != "hello" {
			t.Error(g, p.log)
		}
	}
	p = serve(t, []string{"nothing.invalid:9000", "localhost:" + port}, nil)
	for range 2 {
		if g := p.get("/x.php"); g.body != "hello" {
			t.Error("another after a name that is none: ", g, p.log)
		}
	}
	p = serve(t, []string{"nothing.invalid:9000"}, nil)
	if g := p.get("/x.php"); g.status != 502 && g.status != 504 {
		t.Error("a name that is none: ", g)
	}
}

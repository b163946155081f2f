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
)

// startFull starts an upstream that accepts nobody any more.
func startFull(t *testing.T) *fcgitest.Upstream {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.NeverRead() }, fcgitest.Workers(1), fcgitest.Backlog(0))
	fill := func() bool {
		c, err := net.Dial("unix", strings.TrimPrefix(up.Address, "unix:"))
		if err == nil {
			t.Cleanup(func() { c.Close() })
		}
		return err != nil
	}
	fill()
	up.Wait(5*time.Second, func(accepted, _, _ int) bool { return accepted == 1 })
	eventually(t, "the queue is full", fill)
	return up
}

// TestConnectTimesOut: an upstream to which a connection takes too long leaves time for the others, whose fault it is
// not, and is not asked again for a while.
func TestConnectTimesOut(t *testing.T) {
	full := startFull(t)
	_, a := crowd(t, 2)
	p := serve(t, []string{full.Address, a[0], a[1] + " backup"}, func(s *fastcgi.Settings) {
		s.ConnectTimeout = 600 * time.Millisecond
	})
	done := make(chan got)
	for range 8 {
		go func() { done <- p.request("POST /x.php", nil, "body") }()
	}
	for range 8 {
		if g := <-done; g.status != 200 || g.body != "0" {
			t.Error(g, p.log)
		}
	}
	log := p.log.String()
	if n := strings.Count(log, "not reached"); n == 0 || n > 4 || strings.Contains(log, a[0]) {
		t.Error(n, log)
	}
	if g := p.request("POST /x.php", nil, "body"); g.status != 200 || p.log.String() != log {
		t.Error("asked again: ", g, p.log)
	}
}

// TestBroken: an upstream that connects and does not answer is passed over after a while, even though nobody can tell
// whether a script has run, and comes back when it answers one request that tries.
func TestBroken(t *testing.T) {
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
					s.ReadTimeout, s.Balance = time.Second, balance
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

// TestBrokenScript: single failures between answers say nothing about the upstream.
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

// TestHealth: of those that do not work one request at a time finds out whether they do again.
func TestHealth(t *testing.T) {
	now := time.Now()
	var h fastcgi.Health
	if h.Chosen(); !h.Works(now) {
		t.Error("it works from the start")
	}
	h.Avoid(now.Add(-time.Second))
	if !h.Works(now) {
		t.Error("nobody finds out")
	}
	if h.Chosen(); h.Works(now) {
		t.Error("two find out at once")
	}
}

// TestExhausted: that this process has no descriptor left is no upstream's fault.
func TestExhausted(t *testing.T) {
	var addresses []string
	for range 2 {
		ln, err := net.Listen("unix", t.TempDir()+"/s") // the kernel accepts
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		addresses = append(addresses, "unix:"+ln.Addr().String())
	}
	p := serve(t, addresses, nil)
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
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 200
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	var files []*os.File
	defer func() {
		for _, f := range files {
			f.Close()
		}
	}()
	// What earlier tests have left is closed at any moment, and leaves room for a connection.
	eventually(t, "no descriptor is left", func() bool {
		for {
			f, err := os.Open(os.DevNull)
			if err != nil {
				break
			}
			files = append(files, f)
		}
		g := ask("POST")
		if g.status == 503 && g.header.Get("Retry-After") == "" || g.status != 503 && g.status != 504 {
			t.Error(g)
		}
		return g.status == 503
	})
	if log := p.log.String(); strings.Contains(log, "not reached") {
		t.Error(log)
	}
}

package fastcgi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
)

const okHead = "Content-Type: text/plain\r\n\r\n"

func answers(text string) fcgitest.Script {
	return func(c *fcgitest.Conn) {
		for {
			c.Answer(okHead + text)
		}
	}
}

func TestNobodyListens(t *testing.T) {
	for _, network := range []string{"unix", "missing", "tcp", "tcp6"} {
		for _, line := range []string{"GET /x.php", "POST /x.php"} {
			p := serve(t, []string{fcgitest.Nobody(t, network)}, nil)
			if g := p.request(line, nil, "body"); g.status != 502 || !strings.Contains(p.log.String(), "connect") {
				t.Errorf("%s: %s: %d, %v; log %s", network, line, g.status, g.err, p.log)
			}
		}
	}
}

// TestBodies: what the client does wrong is told without an upstream.
func TestBodies(t *testing.T) {
	up := fcgitest.Start(t, "unix", answers("hello"))
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.MaxBodySize = 1000 })
	for name, tt := range map[string]struct {
		fields []string
		body   string
		status int
	}{
		"just fits": {nil, strings.Repeat("x", 1000), 200},
		"too long":  {nil, strings.Repeat("x", 1001), 413},
		"chunked, fits": {[]string{"Transfer-Encoding: chunked"}, "3e8\r\n" + strings.Repeat("x", 1000) +
			"\r\n0\r\n\r\n", 200},
		"chunked, too long": {[]string{"Transfer-Encoding: chunked"}, "3e9\r\n" + strings.Repeat("x", 1001) +
			"\r\n0\r\n\r\n", 413},
		"chunked, bad": {[]string{"Transfer-Encoding: chunked"}, "what\r\n\r\n", 400},
		"asks first":   {[]string{"Expect: 100-continue", "Content-Length: 1001"}, "", 413},
		"NUL":          {nil, "x", 200},
	} {
		before := up.Accepted()
		line := "POST /x.php"
		if name == "NUL" {
			line = "POST /x.php/%00"
			tt.status = 400
		}
		if g := p.request(line, tt.fields, tt.body); g.status != tt.status {
			t.Errorf("%s: %d, %v", name, g.status, g.err)
		}
		if n := up.Accepted() - before; n != 1 && tt.status == 200 || n != 0 && tt.status != 200 {
			t.Errorf("%s: %d connections", name, n)
		}
	}
}

// TestClientsFault: what cannot be passed on is no error of the server's.
func TestClientsFault(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Hang() })
	p := serve(t, []string{up.Address}, nil)
	fields := []string{"Connection: " + strings.Repeat("a,", 300) + "b"}
	if g := p.request("GET /x.php", fields, ""); g.status != 400 {
		t.Error(g)
	}
	if log := p.log.String(); strings.Contains(log, "ERROR") || !strings.Contains(log, "connection options") {
		t.Error(log)
	}
}

// TestClientLeaves: in every phase, the upstream's connection is closed at once.
func TestClientLeaves(t *testing.T) {
	send := func(t *testing.T, p *proxy, wire string) net.Conn {
		c := p.Dial()
		if _, err := io.WriteString(c, wire); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const get = "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n"
	for name, tt := range map[string]struct {
		script fcgitest.Script
		wire   string
	}{
		"before the answer": {func(c *fcgitest.Conn) { c.Read(); c.Hang() }, get},
		"in the header":     {func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead[:5]); c.Hang() }, get},
		"in the body":       {func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead + "x"); c.Hang() }, get},
		"in an endless body": {func(c *fcgitest.Conn) {
			c.Read()
			c.Stdout(okHead)
			for {
				c.Stdout(strings.Repeat("x", 60000))
			}
		}, get},
		"while it is sent": {func(c *fcgitest.Conn) { c.ReadHead(); c.Gone(time.Minute) },
			"POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n" + strings.Repeat("x", 3000000)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := fcgitest.Start(t, "unix", tt.script)
			p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
				s.ReadTimeout, s.SendTimeout = time.Minute, time.Minute
			})
			c := send(t, p, tt.wire)
			if !up.Wait(5*time.Second, func(_, _, requests int) bool { return requests == 1 }) {
				t.Fatal("no request")
			}
			if name == "in the body" {
				if std, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
					t.Fatal(std, err)
				}
			}
			begin := time.Now()
			c.Close()
			if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
				t.Fatal("the upstream is not closed")
			}
			if d := time.Since(begin); d > time.Second {
				t.Error("closed after ", d)
			}
			if log := p.log.String(); strings.Contains(log, "ERROR") {
				t.Error(log)
			}
		})
	}

	t.Run("in the upload", func(t *testing.T) {
		up := fcgitest.Start(t, "unix", answers("hello"))
		p := serve(t, []string{up.Address}, nil)
		c := send(t, p, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		c.Close()
		if g := p.get("/x.php"); g.body != "hello" || up.Accepted() != 1 {
			t.Error(g, up.Accepted())
		}
	})

	t.Run("in the queue", func(t *testing.T) {
		answer := make(chan bool)
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); <-answer; c.Reply(okHead + "hello") })
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.MaxConns, s.MaxQueue, s.ReadTimeout = 1, 1, time.Minute
		})
		first := send(t, p, get)
		up.Wait(5*time.Second, func(_, _, requests int) bool { return requests == 1 })
		second := send(t, p, get)
		eventually(t, "the queue is full", func() bool { return p.get("/y.php").status == 503 })
		second.Close()
		third := make(chan got)
		eventually(t, "there is room in the queue", func() bool {
			go func() { third <- p.get("/z.php") }()
			select {
			case g := <-third:
				if g.status != 503 {
					t.Fatal(g)
				}
				return false
			case <-time.After(50 * time.Millisecond):
				return true
			}
		})
		close(answer)
		if g := read(bufio.NewReader(first), "GET"); g.body != "hello" {
			t.Error(g)
		}
		if g := <-third; g.body != "hello" || up.Accepted() != 2 {
			t.Error(g, up.Accepted())
		}
	})
}

// TestClientAbortIgnored: the script runs to its end, whether its answer would be spooled or not.
func TestClientAbortIgnored(t *testing.T) {
	for _, limit := range []handlers.Size{0, 100 << 10, 8 << 20} {
		left := make(chan bool)
		var complete atomic.Bool
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Read()
			c.Stdout(okHead)
			<-left
			for range 16 {
				c.Stdout(strings.Repeat("x", 1<<20))
			}
			c.End()
			complete.Store(true)
			c.Hang()
		})
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.IgnoreClientAbort, s.ReadTimeout, s.ResponseBuffering = true, time.Minute, limit
		})
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := bufio.NewReader(c).ReadByte(); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if up.Wait(50*time.Millisecond, func(_, open, _ int) bool { return open == 0 }) {
			t.Fatal("closed")
		}
		close(left)
		if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) || !complete.Load() {
			t.Error("the script has not run to its end")
		}
	}
}

// TestMethods: those of WebDAV are the application's as well, and are not sent twice; TRACE is nobody's.
func TestMethods(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		r := c.Read()
		c.Reply(okHead + r.Get("REQUEST_METHOD") + string(r.Body))
	})
	p := serve(t, []string{up.Address}, nil)
	for _, m := range []string{"PROPFIND", "REPORT", "MKCOL", "MOVE", "LOCK", "DELETE"} {
		if g := p.request(m+" /x.php", nil, "body"); g.status != 200 || g.body != m+"body" {
			t.Error(m, g)
		}
	}
	n := up.Accepted()
	if g := p.request("TRACE /x.php", nil, ""); g.status != 405 || g.header.Get("Allow") == "" {
		t.Error("TRACE: ", g)
	}
	if g := p.request("PURGE /x.php", nil, ""); g.status != 501 {
		t.Error("PURGE: ", g)
	}
	if up.Accepted() != n {
		t.Error("asked")
	}
	cut := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); c.Close() })
	if g := serve(t, []string{cut.Address, up.Address}, nil).request("PROPFIND /x.php", nil, ""); g.status != 502 {
		t.Error("sent again: ", g)
	}
}

// TestSpoolLetGo: the file of a body that was sent, and is not sent again, is closed while the script thinks.
func TestSpoolLetGo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // nobody else's files are there
	up, goOn := stepwise(t)
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
	held := func() bool {
		all, _ := os.ReadDir("/proc/self/fd")
		for _, e := range all {
			if name, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(name, os.TempDir()) {
				if info, err := os.Stat("/proc/self/fd/" + e.Name()); err == nil && info.Mode().IsRegular() {
					return true
				}
			}
		}
		return false
	}
	body := strings.Repeat("x", 200000)
	c := p.Dial()
	fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body[1:])
	eventually(t, "the body is in a file", held)
	io.WriteString(c, body[:1])
	requests(t, up, 1)
	eventually(t, "the file is closed", func() bool { return !held() })
	goOn <- true
	if g := read(bufio.NewReader(c), "POST"); g.body != "hello" {
		t.Error(g)
	}
}

// TestHalfClosed: with ignore_client_abort a client that closes its sending side alone gets its answer, whichever page.
func TestHalfClosed(t *testing.T) {
	for _, intercept := range []bool{false, true} {
		half := make(chan bool)
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); <-half; c.Reply("Status: 500\r\n\r\ntheirs") })
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) {
			s.IgnoreClientAbort, s.InterceptErrors, s.ReadTimeout = true, intercept, time.Minute
		})
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		requests(t, up, 1)
		_ = c.(*net.TCPConn).CloseWrite()
		close(half)
		if g := read(bufio.NewReader(c), "GET"); g.status != 500 || (g.body == "theirs") == intercept {
			t.Error(intercept, g)
		}
	}
}

// TestStreamedUpload: without request_buffering the upstream is told as it comes, and of one that ends early it sees
// the connection close.
func TestStreamedUpload(t *testing.T) {
	seen := make(chan int, 1)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.ReadHead()
		seen <- len(c.ReadBody())
		n, _ := c.Drain()
		c.Reply(okHead, fmt.Sprint(n))
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.RequestBuffering = false })
	c := p.Dial()
	fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100005\r\n\r\nhello")
	if n := <-seen; n != 5 {
		t.Error("the first record has ", n)
	}
	io.WriteString(c, strings.Repeat("x", 100000))
	if g := read(bufio.NewReader(c), "POST"); g.body != "100000" {
		t.Error(g)
	}
	c = p.Dial()
	fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100005\r\n\r\nhello")
	<-seen
	c.Close()
	if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("the connection is open")
	}
	if g := p.request("POST /x.php", []string{"Transfer-Encoding: chunked"},
		"5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n"); g.body != "0" {
		t.Error("chunked: ", g) // it was all in the first record
	}
	<-seen
}

// TestFlush: what goes out when the upstream pauses.
func TestFlush(t *testing.T) {
	for name, tt := range map[string]struct {
		head string
		now  bool
	}{
		"head alone":               {okHead, true},
		"head and body":            {okHead + "hello", true},
		"X-Accel-Buffering: no":    {"X-Accel-Buffering: no\r\n" + okHead + "hello", true},
		"X-Accel-Buffering: yes":   {"X-Accel-Buffering: yes\r\n" + okHead + "hello", false},
		"with a Content-Length":    {"Content-Length: 10\r\n" + okHead + "hello", true},
		"without anything, a head": {"Status: 200\r\n\r\n", true},
	} {
		goOn := make(chan bool)
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Read(); c.Stdout(tt.head); <-goOn; c.Reply("there") })
		p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		r := bufio.NewReader(c)
		if !tt.now {
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if b, err := r.ReadByte(); err == nil {
				t.Errorf("%s: %c", name, b)
			}
			close(goOn)
			c.SetReadDeadline(time.Now().Add(5 * time.Second))
		}
		std, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		_, body, _ := strings.Cut(tt.head, "\r\n\r\n")
		b := make([]byte, len(body))
		if _, err := io.ReadFull(std.Body, b); err != nil || string(b) != body {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if tt.now {
			close(goOn)
		}
		if b, err := io.ReadAll(std.Body); string(b) != "there" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

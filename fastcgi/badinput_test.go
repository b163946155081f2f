package fastcgi_test

import (
	"bufio"
	"context"
	"crypto/md5"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers/modtest"
	"github.com/lwango/lwango/loop"
)

// TestHugeHeader: a response's header is bounded in bytes and in fields, and what is within the bounds passes.
func TestHugeHeader(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "A%d:b\n", i%100)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		head   string
		status int
	}{
		"1 MiB":              {"X: " + strings.Repeat("x", 1<<20) + "\r\n", 502},
		"1 MiB of fields":    {strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 1<<10), 502},
		"10,000 fields":      {fields(10000), 502},
		"1,000 fields":       {fields(1000), 200},
		"60 KB":              {"X: " + strings.Repeat("x", 60000) + "\r\n", 200},
		"no end, no newline": {strings.Repeat("x", 1<<20), 502},
	} {
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Answer(tt.head + okHead + "hello") })
		p := serve(t, []string{up.Address}, nil)
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		line, err := bufio.NewReader(c).ReadString('\n') // net/http would refuse that many fields itself
		if err != nil || !strings.HasPrefix(line, fmt.Sprint("HTTP/1.1 ", tt.status, " ")) {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		if !up.Wait(5*time.Second, func(_, open, _ int) bool { return open == 0 }) {
			t.Errorf("%s: the connection stays", name)
		}
	}
}

// TestLongParams: PHP-FPM gets parameters that take several records.
func TestLongParams(t *testing.T) {
	f := startFPM(t, "unix")
	p := serveFiles(t, "/", []string{f.Address}, map[string]string{
		"sums.php": `<?php foreach ($_SERVER as $k => $v) if (str_starts_with($k, "LONG_"))
echo "$k ", strlen($v), " ", md5($v), "\n";`,
	}, func(s *fastcgi.Settings) {
		s.ReadTimeout = 10 * time.Second
		s.Params = map[string]string{}
		for i := range 8 {
			s.Params[fmt.Sprint("LONG_", i)] = strings.Repeat(fmt.Sprint(i), 30000+i)
		}
	})
	want := ""
	for i := range 8 {
		v := strings.Repeat(fmt.Sprint(i), 30000+i)
		want += fmt.Sprintf("LONG_%d %d %x\n", i, len(v), md5.Sum([]byte(v)))
	}
	lines := func(s string) int { return strings.Count(s, "\n") }
	g := p.get("/sums.php")
	for _, line := range strings.SplitAfter(want, "\n") {
		if !strings.Contains(g.body, line) {
			t.Errorf("no %q", line)
		}
	}
	if g.status != 200 || lines(g.body) != 8 {
		t.Error(g)
	}

	// One that does not fit in a record is not sent, and nobody is asked.
	p = serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) {
		s.Params = map[string]string{"LONG": strings.Repeat("x", 70000)}
	})
	if g := p.get("/hello.php"); g.status != 431 {
		t.Error("beyond a record: ", g.status)
	}
}

// TestNames: an upstream that is named by DNS.
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

// TestSlowUploads: many uploads that come in slowly hold none of the workers of PHP-FPM.
func TestSlowUploads(t *testing.T) {
	f := startFPM(t, "unix", "pm.max_children = 1")
	p := serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
	const uploads, size = 8, 200000 // in a file after the first 64 KiB
	body := strings.Repeat("0123456789", size/10)
	var all []net.Conn
	for i := range uploads {
		c := p.Dial()
		framing := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, body[:size/2])
		if i%2 == 1 {
			framing = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", size, body[:size/2])
		}
		if _, err := io.WriteString(c, "POST /md5.php HTTP/1.1\r\nHost: a\r\n"+framing); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		if g := p.get("/hello.php"); g.body != "Hello, world!" {
			t.Fatal("with ", i+1, " uploads under way: ", g)
		}
	}
	var done sync.WaitGroup
	want := fmt.Sprintf("%x", md5.Sum([]byte(body)))
	for i, c := range all {
		end := ""
		if i%2 == 1 {
			end = "\r\n0\r\n\r\n"
		}
		done.Go(func() {
			if _, err := io.WriteString(c, body[size/2:]+end); err != nil {
				t.Error(err)
			}
			if g := read(bufio.NewReader(c), "POST"); g.body != want {
				t.Error(g)
			}
		})
	}
	done.Wait()
}

// TestGoneAtOnce: when the server has heard that the client is gone, the upstream's connection is closed within 100 ms,
// whatever the request was about, and nothing of it is left. What counts is the best of some tries: in the others it may
// be the test that had to wait for a processor.
func TestGoneAtOnce(t *testing.T) {
	const get = "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n"
	const post = "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n"
	gone := func(c *fcgitest.Conn) { c.Gone(time.Minute) }
	endless := func(c *fcgitest.Conn) {
		c.Read()
		for c.Stdout(okHead); ; {
			c.Stdout(strings.Repeat("x", 60000))
		}
	}
	for name, tt := range map[string]struct {
		script fcgitest.Script
		wire   string
		change func(*fastcgi.Settings)
		moves  bool
	}{
		"before the answer":  {func(c *fcgitest.Conn) { c.Read(); gone(c) }, get, nil, false},
		"in the header":      {func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead[:5]); gone(c) }, get, nil, false},
		"in the body":        {func(c *fcgitest.Conn) { c.Read(); c.Stdout(okHead + "x"); gone(c) }, get, nil, false},
		"in an endless body": {endless, get, nil, true},
		"in a spooled body":  {endless, get, func(s *fastcgi.Settings) { s.ResponseBuffering = 1 << 20 }, true},
		"while it is sent":   {func(c *fcgitest.Conn) { c.ReadHead(); gone(c) }, post + strings.Repeat("x", 9000000), nil, false},
		"in the upload": {func(c *fcgitest.Conn) { c.ReadHead(); gone(c) }, post + "x",
			func(s *fastcgi.Settings) { s.RequestBuffering = false }, false},
		"in an upload that is answered": {func(c *fcgitest.Conn) { c.ReadHead(); c.Stdout(okHead + "x"); gone(c) }, post + "x",
			func(s *fastcgi.Settings) { s.RequestBuffering = false }, false},
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan time.Time, 1)
			up := fcgitest.Start(t, "unix", tt.script)
			h, err := modtest.Build(t, fastcgi.Register, "fastcgi", env(t), func(s *fastcgi.Settings) {
				s.Address, s.ScriptPath, s.CheckFile = []string{up.Address}, ".", false
				if tt.change != nil {
					tt.change(s)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			server := modtest.Start(t, "/", func(req *conn.Request, resp *conn.Response) int {
				ctx := req.Context()
				context.AfterFunc(ctx, func() {
					// Where bytes move a write that fails may be what tells, and the request's end what ends this.
					if why := context.Cause(ctx); why != loop.ErrClientGone && !tt.moves {
						t.Error("the request has ended first: ", why)
					}
					left <- time.Now()
				})
				return h(req, resp)
			}, coro.Direct)
			best := time.Hour
			for try := 1; best > 100*time.Millisecond; try++ {
				if try == 20 {
					t.Fatal("closed after ", best)
				}
				c := server.Dial()
				if _, err := io.WriteString(c, tt.wire); err != nil {
					t.Fatal(err)
				}
				if !up.Wait(10*time.Second, func(_, _, requests int) bool { return requests == try }) {
					t.Fatal("no request")
				}
				c.Close()
				if !up.Wait(10*time.Second, func(_, open, _ int) bool { return open == 0 }) {
					t.Fatal("the upstream's connection is not closed")
				}
				closed := time.Now()
				best = min(best, closed.Sub(<-left))
			}
			eventually(t, "the client's connection is gone, and its thread", func() bool { return server.Active() == 0 })
		})
	}
}

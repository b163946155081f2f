package fastcgi_test

import (
	"bufio"
	"crypto/md5"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

func echo(c *fcgitest.Conn) {
	c.ReadHead()
	c.Stdout(okHead)
	c.Echo()
	c.End()
	c.Hang()
}

// TestUploadBothWays: while the call waits for the next bytes of an upload, the application's
// answer to those before reaches the client.
func TestUploadBothWays(t *testing.T) {
	up := fcgitest.Start(t, "unix", echo)
	overBoth(t, up, func(s *fastcgi.Settings) { s.RequestBuffering = false },
		func(t *testing.T, p *proxy) {
			c := p.Dial()
			const n = 50
			fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n*5)
			var r *http.Response
			for i := range n {
				piece := fmt.Sprintf("%04d\n", i)
				must.Get(io.WriteString(c, piece))(t)
				if r == nil {
					var err error
					if r, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
						t.Fatal(err)
					}
				}
				b := make([]byte, len(piece))
				if _, err := io.ReadFull(r.Body, b); err != nil || string(b) != piece {
					t.Fatalf("%q, %v, want %q", b, err, piece)
				}
			}
			if b, err := io.ReadAll(r.Body); len(b) > 0 || err != nil {
				t.Errorf("%q, %v", b, err)
			}

			big := strings.Repeat("0123456789abcdef", 5<<20/16)
			if g := p.request("PUT /x.php", nil, big); g.body != big || g.err != nil {
				t.Error("5 MB: ", g.status, len(g.body), g.err)
			}
			if g := p.request("PUT /x.php", []string{"Transfer-Encoding: chunked"},
				"5\r\nhello\r\n0\r\n\r\n"); g.body != "hello" {
				t.Error("chunked, which is spooled: ", g)
			}
		})
}

// TestUploadStops: if a client leaves in the middle of an upload, the upstream's connection is
// closed, whether an answer has begun or not.
func TestUploadStops(t *testing.T) {
	for _, answered := range []bool{false, true} {
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.ReadHead()
			if answered {
				c.Stdout(okHead + "begun")
			}
			c.Gone(time.Minute)
		})
		overBoth(t, up, func(s *fastcgi.Settings) { s.RequestBuffering = false },
			func(t *testing.T, p *proxy) {
				c := p.Dial()
				fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
				if answered {
					must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
				} else if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 1 }) {
					t.Fatal("no connection")
				}
				c.Close()
				if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
					t.Error("the connection stays")
				}
			})
	}
}

// TestUnreadUploadIsNotReused: if an application answers before it has the whole body, its
// connection is not kept. It would take the next request for the rest of the body.
func TestUnreadUploadIsNotReused(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.ReadHead()
		c.Stdout(okHead + "enough")
		c.End()
		c.Gone(time.Minute)
	})
	overBoth(t, up, func(s *fastcgi.Settings) {
		s.RequestBuffering, s.KeepConn, s.IdleTimeout = false, true, time.Hour
	}, func(t *testing.T, p *proxy) {
		c := p.Dial()
		fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhello")
		r := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		if b, err := io.ReadAll(r.Body); string(b) != "enough" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
			t.Error("the connection is kept")
		}
	})
}

// TestStreamedUpload: without request_buffering the upstream gets the body as it comes. If the
// client leaves early, the upstream sees the connection close.
func TestStreamedUpload(t *testing.T) {
	seen := make(chan int, 1)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.ReadHead()
		first := len(c.ReadBody())
		seen <- first
		n, _ := c.Drain()
		c.Reply(okHead, fmt.Sprint(int64(first)+n))
	})
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.RequestBuffering = false })
	c := p.Dial()
	fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100005\r\n\r\nhello")
	if n := <-seen; n > 5 || n < 5 && !invariants.Enabled { // which shortens reads
		t.Error("the first record has ", n)
	}
	io.WriteString(c, strings.Repeat("x", 100000))
	if g := read(bufio.NewReader(c), "POST"); g.body != "100005" {
		t.Error(g)
	}
	c = p.Dial()
	fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: 100005\r\n\r\nhello")
	<-seen
	c.Close()
	if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
		t.Error("the connection is open")
	}
	if g := p.request("POST /x.php", []string{"Transfer-Encoding: chunked"},
		"5\r\nhello\r\n5\r\nhello\r\n0\r\n\r\n"); g.body != "10" {
		t.Error("chunked: ", g)
	}
	<-seen
}

// TestSpoolLetGo: once a body is sent that is never sent again, its file is closed, even while the
// script thinks.
func TestSpoolLetGo(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // only this test's files are there
	up, goOn := stepwise(t)
	p := serve(t, []string{up.Address}, func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
	held := func() bool {
		all, _ := os.ReadDir("/proc/self/fd")
		for _, e := range all {
			if name, _ := os.Readlink("/proc/self/fd/" + e.Name()); strings.HasPrefix(name,
				os.TempDir()) {
				if info, err := os.Stat("/proc/self/fd/" + e.Name()); err == nil &&
					info.Mode().IsRegular() {
					return true
				}
			}
		}
		return false
	}
	body := strings.Repeat("x", 200000)
	c := p.Dial()
	fmt.Fprintf(c, "POST /x.php HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body),
		body[1:])
	wait.Until(t, "the body is in a file", held)
	io.WriteString(c, body[:1])
	requests(t, up, 1)
	wait.Until(t, "the file is closed", func() bool { return !held() })
	goOn <- true
	if g := read(bufio.NewReader(c), "POST"); g.body != "hello" {
		t.Error(g)
	}
}

// TestSlowUploads: slow uploads, however many, hold none of PHP-FPM's workers.
func TestSlowUploads(t *testing.T) {
	f := startFPM(t, "unix", "pm.max_children = 1")
	p := serveFiles(t, "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) {
			s.ReadTimeout, s.SendTimeout = time.Minute, time.Minute // the only worker is often busy
		})
	const uploads, size = 8, 200000 // in a file after the first 64 KiB
	body := strings.Repeat("0123456789", size/10)
	var all []net.Conn
	for i := range uploads {
		c := p.Dial()
		framing := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, body[:size/2])
		if i%2 == 1 {
			framing = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", size, body[:size/2])
		}
		must.Get(io.WriteString(c,
			"POST /md5.php HTTP/1.1\r\nHost: a\r\n"+framing))(t)
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

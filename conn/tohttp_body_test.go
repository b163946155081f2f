package conn_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestToHTTPMaxBytes: http.MaxBytesReader sets a field of the answer while it reads. A handler that
// does not wait for that answers all the same, and the race detector finds nothing.
func TestToHTTPMaxBytes(t *testing.T) {
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		var hints conn.Header
		hints.Set("Link", "</a>")
		_ = resp.Inform(103, &hints)
		return resp.Text(403, "no")
	}))
	s := underHTTP(t, http.MaxBytesHandler(h, 1000))
	for range 50 {
		c := dialHTTP(t, s)
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1100\r\n\r\n" + strings.Repeat("x", 1100))
		for {
			a := must.Get(http.ReadResponse(c.R, nil))(t)
			text, err := io.ReadAll(a.Body)
			if a.StatusCode == 103 {
				continue
			}
			if a.StatusCode != 403 || string(text) != "no" || err != nil {
				t.Fatalf("%s %q %v", a.Status, text, err)
			}
			break
		}
		c.Close()
	}
}

// TestToHTTPExpect: a body that is asked for behind the head of the answer comes without a 100, as a
// client sends it in the end.
func TestToHTTPExpect(t *testing.T) {
	s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		if err := resp.Flush(); err != nil {
			return 0
		}
		body, err := io.ReadAll(req.Body())
		if err != nil {
			resp.Abort()
		}
		_, _ = resp.Write(body)
		return 200
	})))
	c := dialHTTP(t, s)
	c.Send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	a := must.Get(http.ReadResponse(c.R, nil))(t)
	c.Send("hello")
	if text, err := io.ReadAll(a.Body); a.StatusCode != 200 || string(text) != "hello" || err != nil {
		t.Errorf("%s %q %v", a.Status, text, err)
	}
}

// TestToHTTPDeadline: middleware that has set a deadline answers when it has passed.
func TestToHTTPDeadline(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		close(began)
		ended <- req.Sleep(time.Hour)
		return 200
	}))
	s := underHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// As context.WithTimeout; but if it passed before the handler begins, that never would.
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		go func() {
			<-began
			cancel(context.DeadlineExceeded)
		}()
		h.ServeHTTP(w, r.WithContext(ctx))
		if ctx.Err() != nil {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	}))
	c := dialHTTP(t, s)
	if a := c.Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"); a.StatusCode != 504 {
		t.Error(a.Status)
	}
	if err := <-ended; err == nil {
		t.Error("the handler has slept for an hour")
	}
}

// TestToHTTPUpgradeBehindBody: a connection that is upgraded before all of a body has come has no
// limit of the body's.
func TestToHTTPUpgradeBehindBody(t *testing.T) {
	t.Parallel()
	hijacked := make(chan time.Time, 1)
	s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		c, r, err := resp.Hijack()
		if err != nil {
			return 500
		}
		hijacked <- time.Now()
		if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"); err != nil {
			return 0
		}
		if _, err := io.CopyN(io.Discard, r, 5); err != nil {
			return 0
		}
		_, _ = io.Copy(c, r)
		return 0
	})))
	var c *client
	for late := true; late; { // the rest of a body has half a second
		c = dialHTTP(t, s)
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\nContent-Length: 5\r\n\r\nhe")
		select {
		case then := <-hijacked:
			c.Send("llo")
			late = time.Since(then) > 250*time.Millisecond
		case <-time.After(wait.Patience):
			t.Fatal("not hijacked")
		}
	}
	if a, err := http.ReadResponse(c.R, nil); err != nil || a.StatusCode != 101 {
		t.Fatal(a, err)
	}
	time.Sleep(600 * time.Millisecond) // the case: longer than what is left of a body may take
	c.Send("echo")
	b := make([]byte, 4)
	if _, err := io.ReadFull(c.R, b); err != nil || string(b) != "echo" {
		t.Errorf("%q %v", b, err)
	}
}

// TestToHTTPUpgradeWithoutBody: a handler that upgrades the connection and does not take the body
// that came with the request does not get for that what the client sends next.
func TestToHTTPUpgradeWithoutBody(t *testing.T) {
	t.Parallel()
	for size := 208 << 10; size <= 320<<10; size += 16 << 10 { // the kernel takes some of these whole
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			release, got := make(chan struct{}, 1), make(chan []byte, 1)
			s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
				c, r, err := resp.Hijack()
				if err != nil {
					return 500
				}
				_, _ = io.WriteString(c,
					"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
				req.KeepWaiting(true) // although the client is cut
				_, _ = req.AwaitAny(-1, loop.FromChan(release))
				all, _ := io.ReadAll(r)
				got <- all
				return 0
			})))
			c := dialHTTP(t, s)
			go io.WriteString(c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"+
				"Upgrade: x\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size)))
			a, err := http.ReadResponse(c.R, nil)
			if err == nil {
				_, _ = io.WriteString(c, "next")
				_ = c.Conn.(*net.TCPConn).CloseWrite()
			}
			release <- struct{}{}
			if all := string(<-got); err == nil && all != strings.Repeat("x", size)+"next" {
				t.Errorf("%s, and the handler gets %d bytes", a.Status, len(all))
			}
			c.Close()
		})
	}
}

// TestToHTTPUpgradeAtOnce: the body is passed on even if the handler has taken over the connection
// before the goroutine that passes it on has begun.
func TestToHTTPUpgradeAtOnce(t *testing.T) {
	t.Parallel()
	s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		c, r, err := resp.Hijack()
		if err != nil {
			return 500
		}
		if _, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n"); err == nil {
			_, _ = io.CopyN(c, r, 5)
		}
		return 0
	})))
	for range 200 { // of which some failed
		c := dialHTTP(t, s)
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello")
		a, err := http.ReadResponse(c.R, nil)
		if err != nil || a.StatusCode != 101 {
			t.Fatal(a, err)
		}
		if b, err := io.ReadAll(c.R); err != nil || string(b) != "hello" {
			t.Fatalf("%q %v", b, err)
		}
		c.Close()
	}
}

// TestSlashOfRewritten: a target that a rule has made is not shown to the client.
func TestSlashOfRewritten(t *testing.T) {
	mux := handlers.NewMux()
	mux.Handle("/internal/shop/", func(req *conn.Request, resp *conn.Response) int { return 204 })
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/shop" {
			if err := req.Layer().Rewrite("/internal/shop?key=s"); err != nil {
				return 500
			}
		}
		return mux.Serve(req, resp)
	}})
	if a := s.Request("GET /shop", nil, ""); a.StatusCode != 404 || a.Header.Get("Location") != "" {
		t.Errorf("%s %s", a.Status, a.Header.Get("Location"))
	}
	if a := s.Request("GET /internal/shop", nil, ""); a.StatusCode != 307 {
		t.Error(a.Status)
	}
}

package conn_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// readerFunc is a body source.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// failing are handlers that end in ways they should not.
var failing = map[string]conn.Handler{
	"/": hello,
	"/panic": func(_ *conn.Request, w *conn.Response) int {
		w.WriteString("secret")
		panic("secret")
	},
	"/late": func(_ *conn.Request, w *conn.Response) int {
		w.WriteString("begun")
		w.Flush()
		w.WriteString("secret")
		panic("secret")
	},
	"/abort": func(_ *conn.Request, w *conn.Response) int { panic(http.ErrAbortHandler) },
	"/source": func(_ *conn.Request, w *conn.Response) int {
		w.SetBodyReader(readerFunc(func([]byte) (int, error) { panic("secret") }), 10)
		return 200
	},
	"/deferred": func(req *conn.Request, w *conn.Response) int {
		req.Defer(func() { panic("secret") })
		return hello(req, w)
	},
	"/goexit": func(*conn.Request, *conn.Response) int { runtime.Goexit(); return 200 },
	"/sourcegoexit": func(_ *conn.Request, w *conn.Response) int {
		w.SetBodyReader(readerFunc(func([]byte) (int, error) { runtime.Goexit(); return 0, nil }),
			10)
		return 200
	},
}

// TestFailingHandlersCloseTheirConnectionAlone: what was answered before arrives; what was
// pipelined behind is not served, by this connection or by the next one that runs on the same
// coroutine; others go on.
func TestFailingHandlersCloseTheirConnectionAlone(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var seen paths
		all := byPath(failing)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			seen.add(req.Path())
			return all(req, resp)
		}})
		s.Panics.Expect()
		other := s.Dial()
		other.Do("GET", get)
		for path := range failing {
			if path == "/" {
				continue
			}
			seen.take()
			before := s.Log.String()
			c := s.Dial()
			send(t, c, get+"GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+smuggled)
			if a := c.Answer("GET"); a.Text != "Hello, world!" {
				t.Errorf("%s: the answer before it: %s", path, a.Status)
			}
			got, err := io.ReadAll(c.R)
			switch text := string(got); path {
			case "/panic":
				if err != nil || parse(t, text, "GET")[0].StatusCode != 500 ||
					!strings.Contains(text, "Connection: close") {
					t.Errorf("%s: %q, %v", path, text, err)
				}
			case "/abort", "/goexit": // no answer is what was asked for
				if text != "" {
					t.Errorf("%s: %q, %v", path, text, err)
				}
			case "/late":
				if !strings.HasSuffix(text, "begun\r\n") {
					t.Errorf("%s: %q, %v", path, text, err)
				}
			}
			if strings.Contains(string(got), "secret") {
				t.Errorf("%s: the client sees the inside: %q", path, got)
			}
			logged := strings.TrimPrefix(s.Log.String(), before)
			want := 1
			if path == "/abort" || strings.Contains(path, "goexit") {
				want = 0
			}
			if strings.Count(logged, "\n") != want ||
				strings.Count(logged, "handler_test.go") < want {
				t.Errorf("%s: logged %q", path, logged)
			}
			if got := seen.take(); got != "/ "+path {
				t.Errorf("%s: served %s", path, got)
			}
			for _, c := range []*client{other, s.Dial(), s.Dial()} {
				send(t, c, "GET /404 HTTP/1.1\r\nHost: a\r\n\r\n")
				s.Settle()
				if a := c.Do("GET", get); a.StatusCode != 404 {
					t.Errorf("%s: the next connection begins with %s", path, a.Status)
				}
				if a := c.Answer("GET"); a.Text != "Hello, world!" {
					t.Errorf("%s: and goes on with %s", path, a.Status)
				}
			}
		}
	}, http1...)
}

// TestClientLeaves: a waiting handler and its context are told, whichever way the client went.
func TestClientLeaves(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		for _, way := range []string{"FIN", "half close", "reset"} {
			entered := make(chan context.Context, 1)
			left := make(chan error, 2)
			s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
				entered <- req.Context()
				left <- req.Sleep(time.Minute)
				left <- req.Sleep(time.Minute) // at once
				return 200
			}})
			c := s.Dial()
			send(t, c, get)
			ctx := <-entered
			if ctx.Err() != nil {
				t.Error("cancelled too early")
			}
			switch way {
			case "FIN":
				c.Close()
			case "half close":
				c.CloseWrite()
			case "reset":
				c.Reset()
			}
			for range 2 {
				if err := <-left; !errors.Is(err, loop.ErrClientGone) {
					t.Errorf("%s: Sleep: %v", way, err)
				}
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, loop.ErrClientGone) {
				t.Errorf("%s: cause %v", way, cause)
			}
			if way == "half close" { // it is still owed its answer
				parse(t, rest(t, c.R), "GET")
			}
			c.Close()
			s.Idle()
		}
	}, plain, direct)
}

func TestContextEndsWithTheRequest(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		got := make(chan context.Context, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			got <- req.Context()
			return hello(req, resp)
		}})
		c := s.Dial()
		for range 3 {
			c.Do("GET", get)
			ctx := <-got
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != context.Canceled {
				t.Errorf("cause %v", cause)
			}
		}
		// Half a client: it was gone before the handler asked.
		send(t, c, get)
		c.CloseWrite()
		c.Answer("GET")
		<-(<-got).Done()
	})
}

// closing is a source that counts how often it was closed.
type closing struct {
	io.Reader
	fd     uintptr
	closed *atomic.Int32
}

func (c closing) Fd() uintptr { return c.fd }
func (c closing) Close() error {
	c.closed.Add(1)
	return nil
}

// TestSourcesAreClosedOnce, in whatever way the response ends, and what was deferred runs.
func TestSourcesAreClosedOnce(t *testing.T) {
	f := must.Get(os.Open("doc.go"))(t)
	defer f.Close()
	run(t, func(t *testing.T, m mode) {
		var closed, deferred atomic.Int32
		waiting := make(chan struct{}, 1)
		source := func(r io.Reader) closing { return closing{r, f.Fd(), &closed} }
		h := byPath(map[string]conn.Handler{
			"/reader": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyReader(source(strings.NewReader("abc")), 3)
				return 200
			},
			"/all": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyReader(source(strings.NewReader("abc")), -1)
				return 200
			},
			"/file": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 10)
				return 200
			},
			"/none": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 10)
				return 304
			},
			"/replace": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 10)
				w.SetBody([]byte("x"))
				return 200
			},
			"/bad": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 10)
				w.Header().Set("X", "\n")
				return 200
			},
			"/panic": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 10)
				panic("now")
			},
			"/goexit": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 10)
				runtime.Goexit()
				return 200
			},
			"/short": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyFile(source(nil), 0, 1<<30)
				return 200
			},
			"/error": func(_ *conn.Request, w *conn.Response) int {
				w.SetBodyReader(source(iotest.ErrReader(io.EOF)), 5)
				return 200
			},
			"/late": func(_ *conn.Request, w *conn.Response) int {
				w.Flush()
				w.SetBodyFile(source(nil), 0, 10)
				return 200
			},
			"/killed": func(req *conn.Request, w *conn.Response) int {
				w.SetBodyReader(source(readerFunc(func([]byte) (int, error) {
					waiting <- struct{}{}
					return 0, req.Sleep(time.Minute)
				})), -1)
				return 200
			},
		})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Defer(func() { deferred.Add(1) })
			return h(req, resp)
		}})
		s.Panics.Expect()
		for _, method := range []string{"GET", "HEAD"} {
			for _, path := range []string{"/reader", "/all", "/file", "/none", "/replace", "/bad",
				"/panic", "/goexit", "/short", "/error", "/late"} {
				closed.Store(0)
				deferred.Store(0)
				c := s.Dial()
				send(t, c, method+" "+path+" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
				_, _ = io.ReadAll(c)
				c.Close()
				s.Idle()
				if closed.Load() != 1 || deferred.Load() != 1 {
					t.Errorf("%s %s: closed %d times, %d deferred calls", method, path,
						closed.Load(), deferred.Load())
				}
			}
		}
		closed.Store(0)
		deferred.Store(0)
		send(t, s.Dial(), "GET /killed HTTP/1.1\r\nHost: a\r\n\r\n")
		<-waiting
		s.Stop(0)
		if closed.Load() != 1 || deferred.Load() != 1 {
			t.Errorf("killed: closed %d times, %d deferred calls", closed.Load(), deferred.Load())
		}
	}, plain, direct)
}

// A client that leaves while the body's reader waits is nobody's failure.
func TestLeavingIsNotLogged(t *testing.T) {
	requests := []string{
		get,
		// the reader is asked before the head goes out
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n",
	}
	waiting := make(chan struct{})
	h := func(req *conn.Request, w *conn.Response) int {
		w.SetBodyReader(readerFunc(func([]byte) (int, error) {
			waiting <- struct{}{}
			return 0, req.Sleep(time.Minute)
		}), -1)
		return 200
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h})
		for _, raw := range requests {
			c := s.Dial()
			send(t, c, raw)
			<-waiting
			c.Close()
			s.Idle()
		}
		if log := s.Log.String(); log != "" {
			t.Errorf("logged %s", log)
		}
	})
}

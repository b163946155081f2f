package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestValuesInContext: an http.Handler behind a native layer, and a function off the loop, find the
// values and the user that the request had when they were called, on any goroutine.
func TestValuesInContext(t *testing.T) {
	var name, none conn.Key[string]
	var number conn.Key[int]
	show := func(ctx context.Context) (text string) {
		var all sync.WaitGroup
		all.Go(func() { // another goroutine than the handler's
			n, named := conn.ValueOf(ctx, &name)
			i, numbered := conn.ValueOf(ctx, &number)
			_, other := conn.ValueOf(ctx, &none)
			text = fmt.Sprintf("%s %v %d %v %v %q;", n, named, i, numbered, other, conn.UserOf(ctx))
		})
		all.Wait()
		return text
	}
	all := append(http1[:len(http1):len(http1)], modes.HTTP2)
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		std := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, show(r.Context()))
			ctx := context.WithValue(r.Context(), &name, "inner")
			fmt.Fprint(w, show(ctx))
		}))
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.Path() == "/bare" {
				return std(req, resp)
			}
			early := req.Context()
			conn.Set(req, &name, "ann")
			conn.Set(req, &number, 1)
			before := req.Context()
			conn.Set(req, &number, 2)
			req.Layer().SetUser("eve", "")
			off, err := conn.Await(req, time.Minute, func(ctx context.Context) (string, error) {
				return show(ctx), nil
			})
			kept := req.KeepWaiting(true)
			called, _ := conn.Call(req, time.Minute, func(ctx context.Context) (string, error) {
				return show(ctx), nil
			}).Await(req.Thread, time.Minute)
			req.KeepWaiting(kept)
			status, _, body, _ := req.Layer().SubrequestInMemory("/sub", "", 1000, std)
			got := show(early) + show(before) + off + called + string(body)
			const now = `ann true 2 true false "eve";`
			const want = ` false 0 false false "";` + `ann true 1 true false "";` + now + now +
				now + `inner true 2 true false "eve";`
			if got != want || err != nil || status != 200 {
				t.Errorf("%d %v\ngot  %s\nwant %s", status, err, got, want)
			}
			return std(req, resp)
		}})
		c := s.Dial()
		for range 2 {
			const want = `ann true 2 true false "eve";inner true 2 true false "eve";`
			if got := c.Do("GET", get).Text; got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			const bare = ` false 0 false false "";inner true 0 false false "";`
			if got := c.Do("GET", "GET /bare HTTP/1.1\r\nHost: a\r\n\r\n").Text; got != bare {
				t.Errorf("bare: got  %s\nwant %s", got, bare)
			}
		}
	}, all...)
}

// TestSetContext: what waits for a request gets the values and the end of the context that was set.
func TestSetContext(t *testing.T) {
	type key struct{}
	errCause := errors.New("a cause")
	waits := map[string]func(req *conn.Request, resp *conn.Response) error{
		"Sleep": func(req *conn.Request, _ *conn.Response) error { return req.Sleep(time.Minute) },
		"AwaitAny": func(req *conn.Request, _ *conn.Response) error {
			_, err := req.AwaitAny(-1, req.After(time.Minute))
			return err
		},
		"Await": func(req *conn.Request, _ *conn.Response) error {
			return req.Await(-1, func(ctx context.Context) error {
				if ctx.Value(key{}) != "v" {
					t.Error("Await: no value")
				}
				<-ctx.Done()
				return ctx.Err()
			})
		},
		"Call": func(req *conn.Request, _ *conn.Response) error {
			_, err := conn.Call(req, -1, func(ctx context.Context) (int, error) {
				if ctx.Value(key{}) != "v" {
					t.Error("Call: no value")
				}
				<-ctx.Done()
				return 0, context.Cause(ctx)
			}).Await(req.Thread, time.Minute)
			return err
		},
		"thread": func(req *conn.Request, _ *conn.Response) (err error) {
			req.Go(func(th *loop.Thread) error { err = th.Sleep(time.Minute); return nil })
			_ = req.Join()
			return err
		},
		"Context": func(req *conn.Request, _ *conn.Response) error {
			ctx := req.Context()
			if ctx.Value(key{}) != "v" {
				t.Error("Context: no value")
			}
			_ = req.Sleep(time.Minute)
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"HTTP": func(req *conn.Request, resp *conn.Response) (err error) {
			conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Context().Value(key{}) != "v" {
					t.Error("HTTP: no value")
				}
				<-r.Context().Done()
				err = context.Cause(r.Context())
			}))(req, resp)
			return err
		},
	}
	ends := map[string]struct {
		of   func(req *conn.Request) context.Context // that the new one descends from
		end  func(ctx context.Context) (context.Context, func())
		want error
	}{
		"deadline": {(*conn.Request).Context, func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
			return ctx, func() { <-ctx.Done(); cancel() }
		}, context.DeadlineExceeded},
		"deadline's cause": {(*conn.Request).Context,
			func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := context.WithTimeoutCause(ctx, 5*time.Millisecond, errCause)
				return ctx, func() { <-ctx.Done(); cancel() }
			}, errCause},
		"cancel": {(*conn.Request).Context, func(ctx context.Context) (context.Context, func()) {
			return context.WithCancel(ctx)
		}, context.Canceled},
		"cause": {(*conn.Request).Context, func(ctx context.Context) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(ctx)
			return ctx, func() { cancel(errCause) }
		}, errCause},
		"own": {func(*conn.Request) context.Context { return context.Background() },
			func(ctx context.Context) (context.Context, func()) { return context.WithCancel(ctx) },
			context.Canceled},
	}
	atOnce(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			way, end := waits[req.Query().Get("wait")], ends[req.Query().Get("end")]
			former := req.Context()
			ctx, cancel := end.end(context.WithValue(end.of(req), key{}, "v"))
			req.SetContext(ctx)
			go cancel()
			err := way(req, resp)
			if !errors.Is(err, end.want) {
				t.Errorf("%s: %v, want %v", req.Target(), err, end.want)
			}
			req.SetContext(former)
			if err := req.Sleep(time.Millisecond); err != nil {
				t.Errorf("%s: the former context: %v", req.Target(), err)
			}
			resp.SetBody(make([]byte, 1<<20))
			return 200
		}})
		c := s.Dial()
		for wait := range waits {
			for end := range ends {
				for range 2 { // the second request has no context of the first
					query := "wait=" + wait + "&end=" + url.QueryEscape(end)
					a := c.Do("GET", "GET /?"+query+" HTTP/1.1\r\nHost: a\r\n\r\n")
					if a.StatusCode != 200 || wait != "HTTP" && len(a.Text) != 1<<20 {
						t.Errorf("%s, %s: %s, %d bytes", wait, end, a.Status, len(a.Text))
					}
				}
			}
		}
	}, direct, several, modes.HTTP2)
}

// TestSetContextLimits: a limit of Await, and a budget, have their own errors under a context that
// was set, also if the function has seen the end first.
func TestSetContextLimits(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, _ *conn.Response) int {
			ctx, cancel := context.WithTimeout(req.Context(), time.Hour)
			defer cancel()
			req.SetContext(ctx)
			until := func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			}
			for range 200 {
				if err := req.Await(time.Millisecond, until); !errors.Is(err, loop.ErrDeadlineExceeded) {
					t.Error("limit:", err)
				}
				err := req.Within(time.Millisecond, func() error { return req.Await(-1, until) })
				if !errors.Is(err, loop.ErrBudget) {
					t.Error("budget:", err)
				}
			}
			return 200
		}})
		var clients sync.WaitGroup
		for range 8 {
			c := s.Dial()
			clients.Go(func() { c.Do("GET", get) })
		}
		clients.Wait()
	}, direct)
}

// TestSetContextEnded: a handler whose context has ended can still read a slow body and send a long
// answer, and its KeepWaiting goes on.
func TestSetContextEnded(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		ended := make(chan bool)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			ctx, cancel := context.WithCancel(req.Context())
			cancel()
			req.SetContext(ctx)
			if err := req.Sleep(time.Minute); !errors.Is(err, loop.ErrCanceled) {
				t.Error(err)
			}
			close(ended)
			body, err := io.ReadAll(req.Body())
			if string(body) != "late" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
			req.KeepWaiting(true)
			if err := req.Sleep(time.Millisecond); err != nil {
				t.Error(err)
			}
			req.KeepWaiting(false)
			for range 100 {
				if _, err := resp.Write(make([]byte, 40<<10)); err != nil {
					t.Error(err)
				}
			}
			return 200
		}})
		c := s.Dial()
		c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
		<-ended
		c.Send("late")
		if a := c.Answer("POST"); len(a.Text) != 100*40<<10 {
			t.Errorf("%s, %d bytes", a.Status, len(a.Text))
		}
	}, direct)
}

// TestSetContextAwaitKeeps: with KeepWaiting the deadline of the request's context ends no Await.
func TestSetContextAwaitKeeps(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			ctx, cancel := context.WithDeadline(req.Context(), time.Unix(1, 0))
			defer cancel()
			req.SetContext(ctx)
			req.KeepWaiting(true)
			if err := req.Await(-1, func(ctx context.Context) error { return ctx.Err() }); err != nil {
				t.Error(err)
			}
			return 200
		}})
		s.Dial().Do("GET", get)
	}, direct)
}

// TestSetContextClientGone: the client's leaving ends a context that does not descend from the
// request's, and the waits with the error that they always have.
func TestSetContextClientGone(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, left := make(chan bool), make(chan context.Context, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.SetContext(context.WithValue(context.Background(), &entered, 1))
			ctx := req.Context()
			close(entered)
			if err := req.Sleep(time.Minute); !errors.Is(err, loop.ErrClientGone) {
				t.Error(err)
			}
			<-ctx.Done()
			if cause := context.Cause(ctx); cause != loop.ErrClientGone {
				t.Error(cause)
			}
			req.KeepWaiting(true)
			if err := req.Sleep(time.Millisecond); err != nil {
				t.Error(err)
			}
			left <- ctx
			return 200
		}})
		c := s.Dial()
		c.Send(get)
		<-entered
		c.Close()
		<-left
		s.Idle()
	}, direct, modes.HTTP2)
}

// TestContextRestored: a middleware's context is the request's while the Handler runs. After that
// no context that the Handler has set ends a wait, and each key has the value that it was given
// last.
func TestContextRestored(t *testing.T) {
	var key conn.Key[int]
	show := func(req *conn.Request) string {
		v, _ := conn.Value(req, &key)
		w, _ := conn.ValueOf(req.Context(), &key)
		return fmt.Sprint(v, w)
	}
	type outer struct{}
	inner := conn.HTTPMiddlewareOnLoop(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), outer{}, 1)))
		})
	})(func(req *conn.Request, resp *conn.Response) int {
		conn.Set(req, &key, 2)
		ctx, cancel := context.WithCancel(req.Context())
		cancel()
		req.SetContext(ctx)
		if err := req.Sleep(time.Minute); !errors.Is(err, loop.ErrCanceled) {
			t.Error(err)
		}
		if got := show(req); got != "2 2" {
			t.Error("Handler:", got)
		}
		return 200
	})
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			conn.Set(req, &key, 1)
			status := inner(req, resp)
			if err := req.Sleep(time.Millisecond); err != nil {
				t.Error(err)
			}
			if req.Context().Value(outer{}) != nil {
				t.Error("the middleware's context is still there")
			}
			conn.Set(req, &key, 3)
			if got := show(req); got != "3 3" {
				t.Error("a value that was set again:", got)
			}
			return status
		}})
		if a := s.Dial().Do("GET", get); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}, direct)
}

// TestSetContextNoUser: a user that the request has no more is not that of its context either.
func TestSetContextNoUser(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Layer().SetUser("ann", "")
			req.SetContext(context.WithValue(req.Context(), t, 1))
			if user := conn.UserOf(req.Context()); user != "ann" {
				t.Errorf("%q", user)
			}
			req.Layer().SetUser("", "")
			if user := conn.UserOf(req.Context()); user != "" {
				t.Errorf("still %q", user)
			}
			return 200
		}})
		s.Dial().Do("GET", get)
	}, direct)
}

// TestContextCosts: a request that sets no value and no context pays for none.
func TestContextCosts(t *testing.T) {
	var key conn.Key[*int]
	v := new(int)
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		conn.Set(req, &key, v)
		conn.Value(req, &key)
		return 200
	}})
	if n := s.Allocs(get); n > 0 {
		t.Errorf("%.1f allocations", n)
	}
}

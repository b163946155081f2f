package conn_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// stray is a function off the loop that outlasts its wait, and looks at its request at the very
// end.
type stray struct {
	release chan struct{}
	looked  sync.WaitGroup

	mu   sync.Mutex
	held []*conn.Request
	seen []string
}

func (s *stray) hold(req *conn.Request) func(context.Context) error {
	s.mu.Lock()
	s.held = append(s.held, req)
	s.looked.Add(1)
	s.mu.Unlock()
	return func(context.Context) error {
		defer s.looked.Done()
		<-s.release
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, string(req.Layer().PathView()))
		return nil
	}
}

func (s *stray) holds(req *conn.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.held {
		if h == req {
			return true
		}
	}
	return false
}

// A request that a function off the loop may still hold is nobody else's, whichever way it ends;
// its connection goes on, where it can, with what was pipelined.
func TestRequestIsLeftToItsFunction(t *testing.T) {
	early := func(t *testing.T, th *loop.Thread, f func(context.Context) error) error {
		err := th.Await(time.Millisecond, f)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Await: %v", err)
		}
		return nil
	}
	ways := map[string]struct {
		handler func(t *testing.T, req *conn.Request, resp *conn.Response, f func(context.Context) error)
		status  int  // 0: no answer
		ends    bool // the connection
	}{
		"handler": {func(t *testing.T, req *conn.Request, _ *conn.Response,
			f func(context.Context) error) {
			_ = early(t, req.Thread, f)
		}, 200, false},
		"child": {func(t *testing.T, req *conn.Request, _ *conn.Response, f func(context.Context) error) {
			req.Go(func(th *loop.Thread) error { return early(t, th, f) })
		}, 200, false},
		"grandchild of a promise": {func(t *testing.T, req *conn.Request, _ *conn.Response,
			f func(context.Context) error) {
			loop.Go(req.Thread, func(th *loop.Thread) (int, error) {
				th.Go(func(th *loop.Thread) error { return early(t, th, f) })
				return 0, nil
			})
		}, 200, false},
		"call that nobody awaits": {func(t *testing.T, req *conn.Request, _ *conn.Response,
			f func(context.Context) error) {
			loop.Call(req.Thread, func() (int, error) { return 0, f(context.Background()) })
		}, 200, false},
		"deferred call": {func(t *testing.T, req *conn.Request, _ *conn.Response,
			f func(context.Context) error) {
			req.Defer(func() { _ = early(t, req.Thread, f) })
		}, 200, false},
		"child of a deferred call": {func(t *testing.T, req *conn.Request, _ *conn.Response,
			f func(context.Context) error) {
			req.Defer(func() { req.Go(func(th *loop.Thread) error { return early(t, th, f) }) })
		}, 200, false},
		"panic": {func(t *testing.T, req *conn.Request, _ *conn.Response, f func(context.Context) error) {
			_ = early(t, req.Thread, f)
			panic("on purpose")
		}, 500, true},
		"goexit": {func(t *testing.T, req *conn.Request, _ *conn.Response,
			f func(context.Context) error) {
			_ = early(t, req.Thread, f)
			runtime.Goexit()
		}, 0, true},
		"panic of the body": {func(t *testing.T, req *conn.Request, resp *conn.Response,
			f func(context.Context) error) {
			_ = early(t, req.Thread, f)
			resp.SetBodyReader(readerFunc(func([]byte) (int, error) { panic("on purpose") }), 10)
		}, 0, true},
		"streamed": {func(t *testing.T, req *conn.Request, resp *conn.Response,
			f func(context.Context) error) {
			resp.WriteString("early")
			_ = resp.Flush()
			_ = early(t, req.Thread, f)
		}, 200, false},
	}
	run(t, func(t *testing.T, m mode) {
		for name, way := range ways {
			if m.HTTP2 && strings.Contains(name, "deferred") {
				continue // the next request does not wait for it
			}
			t.Run(name, func(t *testing.T) {
				st := &stray{release: make(chan struct{})}
				s := start(t, m, conn.Config{Handler: func(req *conn.Request,
					resp *conn.Response) int {
					if st.holds(req) {
						t.Errorf("%s has a request that is a function's", req.Path())
					}
					if req.Path() == "/early" {
						way.handler(t, req, resp, st.hold(req))
						return 200
					}
					resp.WriteString(req.Path())
					return 200
				}})
				if strings.HasPrefix(name, "panic") {
					s.Panics.Expect()
				}
				if m.HTTP2 && way.status != 0 {
					way.ends = false // a stream that was answered has ended anyway
				}
				const next = "GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
				const ask = "GET /early HTTP/1.1\r\nHost: a\r\n\r\n"
				c := s.Dial()
				c.Do("GET", next)
				send(t, c, next+ask+next+ask+next) // pipelined
				if a := c.Answer("GET"); a.Text != "/next" {
					t.Errorf("before it: %q", a.Text)
				}
				for range 2 {
					if way.status != 0 {
						if a := c.Answer("GET"); a.StatusCode != way.status {
							t.Errorf("status %d", a.StatusCode)
						}
					}
					if way.ends {
						break
					}
					if a := c.Answer("GET"); a.Text != "/next" {
						t.Errorf("behind it: %q", a.Text)
					}
				}
				if way.ends {
					_, _ = io.ReadAll(c.R)
					c.Close()
				} else if a := c.Do("GET", next); a.Text != "/next" { // after it was idle
					t.Errorf("later: %q", a.Text)
				}
				for range 3 {
					// on the coroutine, if there still is one
					if a := s.Dial().Do("GET", next); a.Text != "/next" {
						t.Errorf("another client: %q", a.Text)
					}
				}
				st.mu.Lock() // after the last of them was added
				close(st.release)
				st.mu.Unlock()
				st.looked.Wait()
				for _, path := range st.seen {
					if path != "/early" {
						t.Errorf("the function sees %q", path)
					}
				}
				if want := map[bool]int{false: 2, true: 1}[way.ends]; len(st.seen) != want {
					t.Errorf("%d functions, want %d", len(st.seen), want)
				}
			})
		}
	})
}

// An Await that has ended in time costs the connection nothing: the exchange is the same, a body
// that nobody has read is dropped, and the connection goes on.
// alone: other tests' exchanges rest in the same ring
func TestAwaitInTimeKeepsTheExchange(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		seen := make(map[*conn.Request]bool)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if err := req.Await(-1, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
			seen[req] = true
			return 200
		}})
		c := s.Dial()
		for range 100 {
			c.Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
		}
		s.Stop(time.Second)
		most := 1
		if invariants.Enabled {
			most += conn.Resting // those that the others make room for
		}
		if len(seen) > most {
			t.Errorf("%d requests", len(seen))
		}
	}, plain, direct, overTLS)
}

// The threads that a handler starts end before its answer goes out; if one fails, the answer is
// 500.
func TestThreadsOfAHandler(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	siblings := make(chan error, 1)
	sleep := func(th *loop.Thread) error {
		err := th.Sleep(time.Hour)
		siblings <- err
		return err
	}
	handlers := map[string]conn.Handler{
		"/waited": func(req *conn.Request, resp *conn.Response) int {
			for range 3 {
				req.Go(func(th *loop.Thread) error {
					err := th.Sleep(time.Millisecond)
					resp.WriteString("child ")
					return err
				})
			}
			resp.WriteString("handler ")
			return 200
		},
		"/fails": func(req *conn.Request, resp *conn.Response) int {
			req.Go(sleep)
			req.Go(func(th *loop.Thread) error { th.Yield(); return boom })
			resp.WriteString("secret")
			return 200
		},
		"/panics": func(req *conn.Request, resp *conn.Response) int {
			req.Go(sleep)
			req.Go(func(th *loop.Thread) error { panic("secret") })
			resp.WriteString("secret")
			return 200
		},
		"/handler panics": func(req *conn.Request, resp *conn.Response) int {
			req.Go(sleep)
			req.Yield()
			panic("secret")
		},
		"/late": func(req *conn.Request, resp *conn.Response) int {
			resp.WriteString("begun")
			_ = resp.Flush()
			req.Go(func(th *loop.Thread) error { return boom })
			return 200
		},
		"/taken": func(req *conn.Request, resp *conn.Response) int { // by the handler
			req.Go(func(th *loop.Thread) error { return boom })
			if err := req.Join(); err == boom {
				resp.WriteString("taken")
			}
			return 200
		},
		// a wait that is not the child's
		"/behalf": func(req *conn.Request, resp *conn.Response) int {
			req.Go(func(th *loop.Thread) error { return req.Sleep(time.Hour) })
			return 200
		},
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			return handlers[req.Path()](req, resp)
		}})
		s.Panics.Expect()
		c := s.Dial()
		for path, want := range map[string]struct {
			status int
			text   string
		}{
			"/waited": {200, "handler child child child "}, "/taken": {200, "taken"},
			"/fails": {500, ""}, "/panics": {500, ""}, "/behalf": {500, ""},
		} {
			a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			wrong := want.text != "" && a.Text != want.text || strings.Contains(a.Text, "secret")
			if a.StatusCode != want.status || wrong {
				t.Errorf("%s: %d %q", path, a.StatusCode, a.Text)
			}
			if path == "/fails" || path == "/panics" {
				if err := <-siblings; !errors.Is(err, loop.ErrCanceled) {
					t.Errorf("%s: the other thread ended with %v", path, err)
				}
			}
		}
		panics := s.Dial()
		if a := panics.Do("GET",
			"GET /handler%20panics HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 500 {
			t.Errorf("handler panics: %d", a.StatusCode)
		}
		panics.Close()
		if err := <-siblings; !errors.Is(err, loop.ErrCanceled) {
			t.Errorf("handler panics: the other thread ended with %v", err)
		}
		late := s.Dial()
		send(t, late, "GET /late HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := must.Get(http.ReadResponse(late.R, nil))(t)
		if text, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("late: a whole answer, %q", text)
		}
		resp.Body.Close()
		late.Close()
		s.Stop(time.Second)
	}, plain, direct, overTLS)
}

// A handler that goes on after its client has left, and does not heed the errors of its waits, is
// ended, and others are served meanwhile.
func TestHandlerThatDoesNotHeedIsEnded(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, ended := make(chan struct{}), make(chan struct{})
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.Path() != "/deaf" {
				return hello(req, resp)
			}
			req.Defer(func() { close(ended) })
			close(entered)
			for {
				_ = req.Sleep(time.Hour)
				req.Go(func(th *loop.Thread) error { return th.Sleep(time.Hour) })
			}
		}})
		c := s.Dial()
		send(t, c, "GET /deaf HTTP/1.1\r\nHost: a\r\n\r\n")
		<-entered
		c.Close()
		other := s.Dial()
		for gone := false; !gone; {
			other.Do("GET", get)
			select {
			case <-ended:
				gone = true
			default:
			}
		}
		if !strings.Contains(s.Log.String(), "does not heed") {
			t.Errorf("logged %q", s.Log.String())
		}
	})
}

// A handler may wait for longer than any limit of the connection: they are for clients.
func TestWaitingHandlerOutlivesTheTimeouts(t *testing.T) {
	t.Parallel()
	const limit = 20 * time.Millisecond
	never := new(loop.Promise[int])
	handlers := map[string]conn.Handler{
		"/sleep": func(req *conn.Request, _ *conn.Response) int {
			_ = req.Sleep(5 * limit)
			return 200
		},
		"/any": func(req *conn.Request, _ *conn.Response) int {
			_, _ = req.AwaitAny(5*limit, never)
			return 200
		},
		"/own": func(req *conn.Request, _ *conn.Response) int {
			_, _ = req.AwaitAny(5*limit, req.Thread.Layer().Descriptor().Readable())
			return 200
		},
		"/function": func(req *conn.Request, _ *conn.Response) int {
			_ = req.Await(-1, func(context.Context) error { time.Sleep(5 * limit); return nil })
			return 200
		},
		"/child": func(req *conn.Request, _ *conn.Response) int {
			req.Go(func(th *loop.Thread) error { return th.Sleep(5 * limit) })
			return 200
		},
	}
	run(t, func(t *testing.T, m mode) {
		write := limit
		if invariants.Enabled {
			write = wait.Patience // a forced EAGAIN makes a write wait
		}
		s := start(t, m, conn.Config{
			Limits: conn.Limits{KeepAliveTimeout: limit, BodyTimeout: limit, WriteTimeout: write},
			Handler: func(req *conn.Request, resp *conn.Response) int {
				return handlers[req.Path()](req, resp)
			},
		})
		for path := range handlers {
			if path == "/own" && m.HTTP2 {
				continue // a stream's thread has no descriptor
			}
			began := time.Now()
			if a := s.Dial().Do("GET",
				"GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); a.StatusCode != 200 {
				t.Errorf("%s: %d", path, a.StatusCode)
			}
			if took := time.Since(began); took < 5*limit {
				t.Errorf("%s: only %v", path, took)
			}
		}
	})
}

// The first wait of a request allocates, and the others do not.
func TestOnlyTheFirstWaitOfARequestAllocates(t *testing.T) {
	ci.Without(t, invariants.Enabled, "the checks cost")
	run(t, func(t *testing.T, m mode) {
		var p [2]int
		must.Do(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
		defer unix.Close(p[0])
		defer unix.Close(p[1])
		buf := make([]byte, 8)
		readable, promise, waits := loop.Readable(p[0]), new(loop.Promise[int]), 0
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			for range waits {
				_, _ = unix.Write(p[1], buf[:1])
				if i, err := req.AwaitAny(time.Minute, promise, readable); i != 1 || err != nil {
					t.Error(i, err)
				}
				_, _ = unix.Read(p[0], buf)
				_ = req.AwaitRead(0, p[0])
			}
			resp.WriteString("x")
			return 200
		}})
		c := s.Dial()
		count := func(n int) float64 {
			s.On(func(*loop.Loop) { waits = n })
			c.Do("GET", get)
			return testing.AllocsPerRun(20, func() { c.Do("GET", get) })
		}
		none, one, ten := count(0), count(1), count(10)
		if ten-one > 9 { // AwaitAny's, at most one each
			t.Errorf("%v allocations for one wait, %v for ten", one-none, ten-none)
		}
		t.Logf("%v allocations for the first wait, %v for nine more", one-none, ten-one)
		s.Stop(time.Second)
	}, plain, direct)
}

// A request that is left to a function off the loop leaves a body behind, which the client has to
// send as fast as any other.
func TestAbandonedBodyHasItsLimits(t *testing.T) {
	t.Parallel()
	const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n1234"
	for _, timeout := range []time.Duration{time.Minute, 50 * time.Millisecond} {
		run(t, func(t *testing.T, m mode) {
			block := make(chan struct{})
			defer close(block)
			handler := func(req *conn.Request, _ *conn.Response) int {
				_ = req.Await(time.Millisecond, func(context.Context) error { <-block; return nil })
				return 200
			}
			c := start(t, m, conn.Config{Limits: conn.Limits{BodyTimeout: timeout}, Handler: handler}).Dial()
			if a := c.Do("POST", post); a.StatusCode != 200 || a.Close {
				t.Errorf("%d, close: %v", a.StatusCode, a.Close)
			}
			if timeout == time.Minute { // the rest comes in time
				c.Send("5")
				c.Do("GET", get)
				return
			}
			_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
			c.Ends()
		}, plain, direct, overTLS)
	}
}

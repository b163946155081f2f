package conn_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// tailor writes the rest of an answer.
type tailor struct {
	run func(t *loop.Thread) (time.Duration, bool)
	end func(t *loop.Thread)
}

func (k *tailor) Run(t *loop.Thread) (time.Duration, bool) {
	if k.run == nil {
		return 0, false
	}
	return k.run(t)
}

func (k *tailor) End(t *loop.Thread) {
	if k.end != nil {
		k.end(t)
	}
}

// keepOpen leaves the rest of the answer to k.
func keepOpen(resp *conn.Response, k conn.Keeper) *conn.Tail {
	resp.Header().Set("Content-Type", "text/plain")
	if _, err := resp.WriteString("head "); err != nil {
		panic(err)
	}
	if err := resp.Flush(); err != nil {
		panic(err)
	}
	tail, err := resp.Layer().KeepOpen(k)
	if err != nil {
		panic(err)
	}
	return tail
}

// TestTailsInARow: answers that a keeper ends at once, each with the next request behind it, do not
// stand on each other's stack.
func TestTailsInARow(t *testing.T) {
	const many = 50
	run(t, func(t *testing.T, m mode) {
		begun, sent := make(chan bool), make(chan bool)
		depths := make(chan int, many)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			depths <- runtime.Callers(0, make([]uintptr, 10_000))
			begun <- true
			<-sent
			_ = req.Sleep(time.Millisecond) // the loop sees that there is input
			keepOpen(resp, &tailor{})
			return 200
		}})
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		for range many - 1 {
			<-begun
			c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			sent <- true
			if a := c.Answer("GET"); a.Text != "head " {
				t.Fatalf("%d, %q", a.StatusCode, a.Text)
			}
		}
		<-begun
		sent <- true
		c.Answer("GET")
		first := <-depths
		for range many - 1 {
			if n := <-depths; n > first+5 {
				t.Fatalf("%d frames, at first %d", n, first)
			}
		}
		c.Close()
		_, _ = io.Copy(io.Discard, c)
		s.Idle()
	}, plain, direct, overTLS)
}

var tails = []mode{plain, direct, overTLS, modes.HTTP2, modes.HTTP2TLS}

// TestTailMissesNothing: a notification that comes while something waits that Run has left behind
// has the keeper run again.
func TestTailMissesNothing(t *testing.T) {
	for name, leave := range map[string]func(t *loop.Thread, f func(t *loop.Thread)){
		"deferred": func(t *loop.Thread, f func(t *loop.Thread)) { t.Defer(func() { f(t) }) },
		"started": func(t *loop.Thread, f func(t *loop.Thread)) {
			t.Go(func(t *loop.Thread) error { f(t); return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				s := start(t, m, conn.Config{Handler: func(_ *conn.Request, resp *conn.Response) int {
					runs := 0
					keepOpen(resp, &tailor{run: func(t *loop.Thread) (time.Duration, bool) {
						if runs++; runs == 1 {
							leave(t, func(waits *loop.Thread) {
								loop.Notify(t)
								_ = waits.Sleep(2 * time.Millisecond)
							})
						}
						return -1, runs == 1
					}})
					return 200
				}})
				c := s.Dial()
				c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
				if a := c.Answer("GET"); a.Text != "head " {
					t.Errorf("%d, %q", a.StatusCode, a.Text)
				}
				c.Close()
				s.Idle()
			}, tails...)
		})
	}
}

// TestKeptButNotBegun: a keeper whose handler does not return is told of the end all the same, and
// the request is counted and logged once.
func TestKeptButNotBegun(t *testing.T) {
	for name, end := range map[string]func(req *conn.Request){
		"exits":  func(*conn.Request) { runtime.Goexit() },
		"killed": func(req *conn.Request) { _ = req.Sleep(time.Hour) },
	} {
		for what, hand := range map[string]func(resp *conn.Response, k conn.Keeper){
			"tail":     func(resp *conn.Response, k conn.Keeper) { keepOpen(resp, k) },
			"hijacked": takeOver,
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				run(t, func(t *testing.T, m mode) {
					lines, log := &entries{}, make(chan string, 10)
					var ctx context.Context
					handle := func(req *conn.Request, resp *conn.Response) int {
						ctx = req.Context()
						req.Defer(func() { log <- "deferred" })
						hand(resp, &tailor{end: func(*loop.Thread) { log <- "end" }})
						log <- "kept"
						end(req)
						return 200
					}
					s := start(t, m, conn.Config{AccessLog: lines, Handler: handle})
					c := s.Dial()
					if what == "tail" {
						c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
					} else {
						send(t, c, strings.Replace(upgradeTo, "%s", "/", 1))
					}
					if got := receive(t, log); got != "kept" {
						t.Error(got)
					}
					if name == "killed" {
						s.Settle()
						s.Stop(0)
					}
					for _, want := range []string{"end", "deferred"} {
						if got := receive(t, log); got != want {
							t.Errorf("%q, want %q", got, want)
						}
					}
					<-ctx.Done()
					if e := lines.one(t); e.Hijacked != (what == "hijacked") {
						t.Errorf("logged %+v", e)
					}
					if name == "exits" {
						c.Close()
						s.Idle()
						s.On(func(l *loop.Loop) {
							n := s.Stats(l)
							if n.Ended != n.Requests || n.Hijacked != 0 || n.Tunnels != 0 {
								t.Errorf("counted %+v", n)
							}
						})
					}
					if len(log) > 0 {
						t.Errorf("then %q", <-log)
					}
				}, handed...)
			})
		}
	}
}

// TestKeeperWithoutHead: a keeper over HTTP/2 that ends before the head of an answer was written is
// logged.
func TestKeeperWithoutHead(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		text := new(logtext.Buffer)
		logger := slog.New(slog.NewTextHandler(text, nil))
		s := start(t, m,
			conn.Config{Logger: logger, Handler: func(_ *conn.Request, resp *conn.Response) int {
				if _, _, err := resp.Hijack(); err != nil {
					panic(err)
				}
				if err := resp.Layer().HandOver(&tailor{}); err != nil {
					panic(err)
				}
				return 0
			}})
		c := s.Dial()
		send(t, c, strings.Replace(upgradeTo, "%s", "/", 1))
		_, _ = io.Copy(io.Discard, c)
		c.Close()
		s.Idle()
		if !strings.Contains(text.String(), "has not written the head") {
			t.Errorf("logged %q", text.String())
		}
	}, modes.HTTP2)
}

// TestTailWritesNothing: a write of nothing is no piece of the answer.
func TestTailWritesNothing(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(_ *conn.Request, resp *conn.Response) int {
			var tail *conn.Tail
			tail = keepOpen(resp, &tailor{run: func(*loop.Thread) (time.Duration, bool) {
				for _, p := range []string{"", "tail", ""} {
					if n, err := tail.Write([]byte(p)); n != len(p) || err != nil {
						t.Errorf("%d, %v", n, err)
					}
				}
				return 0, false
			}})
			return 200
		}})
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if a := c.Answer("GET"); a.Text != "head tail" {
			t.Errorf("%d, %q", a.StatusCode, a.Text)
		}
		c.Close()
		s.Idle()
	}, tails...)
}

// TestTailSeesTheClientLeave: although its handler has gone on waiting without its client.
func TestTailSeesTheClientLeave(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.KeepWaiting(true)
			keepOpen(resp, &tailor{run: func(t *loop.Thread) (time.Duration, bool) { return -1, !t.Gone() }})
			return 200
		}})
		c := s.Dial()
		c.Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := c.R.Peek(1); err != nil {
			t.Error(err)
		}
		s.Settle()
		c.Close()
		s.Idle()
	}, tails...)
}

// TestDeferredSeeTheRequest: functions that were deferred find their own request at the end,
// however many others have come meanwhile.
func TestDeferredSeeTheRequest(t *testing.T) {
	for name, hand := range map[string]func(resp *conn.Response, k conn.Keeper){
		"tail": func(resp *conn.Response, k conn.Keeper) { keepOpen(resp, k) }, "hijacked": takeOver,
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				log, now := make(chan string, 1), make(chan bool)
				s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
					if req.Path() != "/first" {
						return 200
					}
					thread, over := req.Thread, false
					req.Defer(func() {
						log <- req.Method() + req.Path() + string(req.Header().Get("Sec-WebSocket-Version"))
					})
					hand(resp, &tailor{run: func(*loop.Thread) (time.Duration, bool) {
						was := over
						over = true
						return -1, !was
					}})
					go func() {
						<-now
						loop.Notify(thread)
					}()
					return 200
				}})
				c := s.Dial()
				if name == "tail" {
					c.Send("GET /first HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Version: 13\r\n\r\n")
				} else {
					send(t, c, strings.Replace(upgradeTo, "%s", "/first", 1))
				}
				if _, err := c.R.Peek(1); err != nil {
					t.Error(err)
				}
				s.Settle()
				for range 2 {
					other := s.Dial()
					other.Do("GET", "GET /another HTTP/1.1\r\nHost: a\r\n\r\n")
					other.Close()
				}
				close(now)
				if got := receive(t, log); got != "GET/first13" {
					t.Errorf("the request is %q", got)
				}
				c.Close()
				s.Idle()
			}, handed...)
		})
	}
}

// takeOver hands the connection on to k.
func takeOver(resp *conn.Response, k conn.Keeper) {
	c, _, err := resp.Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 S\r\n\r\n")
	if err := resp.Layer().HandOver(k); err != nil {
		panic(err)
	}
}

// TestTailsAreCounted: what has passed before the answer was kept open counts, and the lines of a
// connection's answers use up its share of the access log.
func TestTailsAreCounted(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		lines := &entries{asked: make(chan struct{}, 1)}
		handle := func(req *conn.Request, resp *conn.Response) int {
			if _, err := io.Copy(io.Discard, req.Body()); err != nil {
				panic(err)
			}
			var tail *conn.Tail
			tail = keepOpen(resp, &tailor{run: func(*loop.Thread) (time.Duration, bool) {
				_, _ = io.WriteString(tail, "tail")
				return 0, false
			}})
			return 200
		}
		s := start(t, m, conn.Config{AccessLog: lines, Count: true, Handler: handle})
		c := s.Dial()
		for i := range 2 {
			lines.full.Store(i == 1)
			c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
			if a := c.Answer("POST"); a.Text != "head tail" {
				t.Errorf("%d, %q", a.StatusCode, a.Text)
			}
			if e := lines.one(t); int(e.Share.Used) != i || e.Bytes != 9 {
				t.Errorf("line %d: %+v", i, e)
			}
		}
		<-lines.asked
		lines.full.Store(false)
		c.Close()
		s.Idle()
		if n := tallied(s).Routes[0]; n.Sent != 18 || n.Got != 8 {
			t.Errorf("counted %d sent, %d got", n.Sent, n.Got)
		}
	}, tails...)
}

// TestKilledBeforeKeeper: a stop that kills a thread between its handler and the first run of the
// keeper, while what the handler has written goes out, ends all that the two have begun.
func TestKilledBeforeKeeper(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		lines, log := &entries{}, make(chan string, 10)
		var done <-chan struct{}
		s := start(t, m,
			conn.Config{AccessLog: lines, Handler: func(req *conn.Request, resp *conn.Response) int {
				done = req.Context().Done()
				req.Defer(func() { log <- "deferred" })
				must.Do(t, resp.Flush())
				if _, err := resp.WriteString(strings.Repeat("x", 40<<10)); err != nil {
					t.Error(err)
				}
				junk := make([]byte, 64<<10) // fills the socket, whose client reads nothing
				for n := len(junk); n > 0; {
					if _, err := unix.Write(req.Thread.FD(), junk[:n]); err != nil {
						n /= 2
					}
				}
				if _, err := resp.Layer().KeepOpen(&tailor{end: func(*loop.Thread) { log <- "end" }}); err != nil {
					t.Error(err)
				}
				log <- "kept"
				return 200
			}})
		s.Dial().Send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if got := receive(t, log); got != "kept" {
			t.Error(got)
		}
		s.Settle() // it waits for room
		s.Stop(0)
		for _, want := range []string{"end", "deferred"} {
			if got := receive(t, log); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		receive(t, done)
		lines.one(t)
	}, plain, direct)
}

// TestTakenOverUnderTap: a tap lets go of an answer whose handler takes the connection over, so a
// client that leaves ends the handler's wait. An answer that is tapped is not kept open: the tap
// waits for its end.
func TestTakenOverUnderTap(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		waits, waited := make(chan error, 1), make(chan error, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			p := &tap{fate: map[int]conn.Verdict{200: conn.Tapped}}
			status, _ := req.Layer().Tap(resp, func(req *conn.Request, w *conn.Response) int {
				if req.Path() == "/kept" {
					must.Do(t, w.Flush())
					_, err := resp.Layer().KeepOpen(&tailor{})
					waits <- err
					return 200
				}
				_, _, err := w.Hijack()
				waits <- err
				waited <- req.Sleep(time.Hour)
				return 200
			}, p, nil)
			return status
		}})
		c := s.Dial()
		c.Send(strings.Replace(upgrade2, "/ws", "/taken", 1))
		if err := receive(t, waits); err != nil {
			t.Error(err)
		}
		c.Close()
		if err := receive(t, waited); !errors.Is(err, loop.ErrClientGone) {
			t.Errorf("the wait ends with %v", err)
		}
		c = s.Dial()
		c.Send("GET /kept HTTP/1.1\r\nHost: a\r\n\r\n")
		if err := receive(t, waits); err == nil {
			t.Error("a tapped answer was kept open")
		}
		if a := c.Answer("GET"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}, plain, direct, modes.HTTP2)
}

package stream_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestServe: the handler takes one line each time it is called, in whatever pieces the line
// arrives.
func TestServe(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		run(t, func(t *testing.T, m mode) {
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr, m.Loops = filepath.Join(t.TempDir(), "socket"), 1
			}
			ls := loops.Start(t, m, quiet, func(l *loop.Loop) {
				srv, err := stream.StartServer(l, network, addr, -1, func(
					th *loop.Thread, s *stream.Conn,
				) error {
					if l.Layer().Current() != th || s.RemoteAddr().Network() != network {
						t.Errorf("on %v, from %v", l.Layer().Current(), s.RemoteAddr())
					}
					line := make([]byte, 6)
					if _, err := io.ReadFull(s, line); err != nil {
						return err
					}
					switch string(line[:5]) {
					case "panic":
						panic(line)
					case "leave":
						runtime.Goexit()
					case "close":
						return s.Close()
					case "error":
						return errors.New("of the handler's own")
					}
					_, err := s.Write(line)
					return err
				})
				must.Do(t, err)
				addr = srv.Addr().String()
			})
			ls.Panics.Expect()
			goroutines := runtime.NumGoroutine()
			for range 30 {
				c := caller(t, addr)
				asks(t, c, "hello\n")
				asks(t, c, "three\nlines\natend\n") // the handler is called again for two of them
			}
			slow := caller(t, addr)
			for _, piece := range strings.Split("slowl\n", "") {
				_, _ = io.WriteString(slow, piece)
				runtime.Gosched()
			}
			if _, err := io.ReadFull(slow, make([]byte, 6)); err != nil {
				t.Error(err)
			}
			ls.On(func(*loop.Loop) {})
			if n := runtime.NumGoroutine() - goroutines; n > 6 {
				t.Errorf("%d goroutines for 31 idle connections", n)
			}
			for _, word := range []string{"close\n", "error\n", "leave\n", "panic\n"} {
				c := caller(t, addr)
				asks(t, c, "hello\n")
				_, _ = io.WriteString(c, word)
				if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
					t.Errorf("%q: %q, %v", word, rest, err)
				}
			}
			ls.Stop(time.Minute)
			if rest, err := io.ReadAll(slow); len(rest) > 0 || err != nil {
				t.Errorf("at the stop: %q, %v", rest, err)
			}
		}, plain, direct, several)
	}
}

// TestServeEndsWithTheInput: a connection ends with its input, whether the handler has seen the
// end, has swallowed it as io.Copy does, or returns an error instead. It also ends if the handler
// does not read at all.
func TestServeEndsWithTheInput(t *testing.T) {
	handlers := map[string]func(th *loop.Thread, s *stream.Conn) error{
		"copies": func(_ *loop.Thread, s *stream.Conn) error {
			_, err := io.Copy(io.Discard, s)
			return err
		},
		"tries": func(_ *loop.Thread, s *stream.Conn) error {
			s.SetNoWait(true)
			_, err := s.Read(make([]byte, 9))
			return err
		},
		"hides errors": func(_ *loop.Thread, s *stream.Conn) error {
			_, _ = s.Read(make([]byte, 9))
			return nil
		},
		"wraps": func(_ *loop.Thread, s *stream.Conn) error {
			s.SetNoWait(true)
			for {
				if _, err := s.Read(make([]byte, 1)); err != nil {
					return errors.Join(err, nil)
				}
			}
		},
		"ignores it": func(_ *loop.Thread, s *stream.Conn) error { return nil },
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			for _, reset := range []bool{false, true} {
				onLoop(t, func(t *testing.T, l *loop.Loop) {
					calls := 0
					counting := func(th *loop.Thread, s *stream.Conn) error {
						calls++
						return handler(th, s)
					}
					srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1, counting)
					must.Do(t, err)
					c := caller(t, srv.Addr().String()).(*net.TCPConn)
					_, _ = io.WriteString(c, "some input")
					if reset {
						_ = c.SetLinger(0)
						_ = c.Close()
					} else {
						_ = c.CloseWrite()
					}
					l.Go(func(th *loop.Thread) {
						for l.Threads() < 3 { // listener, connection, this one
							th.Yield()
						}
						must.Do(t, srv.Close())
						for l.Threads() > 1 {
							_ = th.Sleep(time.Millisecond)
						}
						if calls > 20 {
							t.Errorf("%d calls of the handler", calls)
						}
					})
				})
			}
		})
	}
}

func TestServeIdleTimeout(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		const idle, enough = 10 * wait.Patience, 11 * wait.Patience
		served, ended := 0, 0
		handler := func(th *loop.Thread, s *stream.Conn) error {
			_, err := s.Read(make([]byte, 9))
			if err == nil {
				served++
				err = th.Sleep(2 * enough) // this wait is not idle time
				ended++
			}
			return err
		}
		srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", idle, handler)
		must.Do(t, err)
		l.Go(func(th *loop.Thread) {
			silent, err := stream.Dial(th, -1, "tcp", srv.Addr().String())
			must.Do(t, err)
			defer silent.Close()
			other, err := stream.Dial(th, -1, "tcp", srv.Addr().String())
			must.Do(t, err)
			defer other.Close()
			until := func(n *int) {
				for *n == 0 {
					_ = th.Sleep(time.Millisecond)
				}
			}
			closed := func(c *stream.Conn, what string) {
				t.Helper()
				if _, err := c.Read(make([]byte, 1)); err != io.EOF {
					t.Errorf("%s: %v", what, err)
				}
			}
			open := func(c *stream.Conn, what string) {
				t.Helper()
				_ = c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, loop.ErrDeadlineExceeded) {
					t.Errorf("%s: %v", what, err)
				}
				_ = c.SetReadDeadline(time.Time{})
			}
			_, _ = other.Write([]byte("x"))
			until(&served)
			open(silent, "not silent for long")
			l.Layer().AdvanceClock(enough)
			closed(silent, "silent from the start")
			l.Layer().AdvanceClock(enough)
			until(&ended)
			open(other, "not silent for long, after a wait")
			l.Layer().AdvanceClock(enough)
			closed(other, "silent later")
			must.Do(t, srv.Close())
		})
	})
}

// TestServeStops: what was sent before the stop is served; a handler that waits gets its time, and
// no more.
func TestServeStops(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		addr := "127.0.0.1:0"
		stuck := make(chan struct{}, 1)
		ls := loops.Start(t, m, quiet, func(l *loop.Loop) {
			srv, err := stream.StartServer(l, "tcp", addr, -1, func(
				th *loop.Thread, s *stream.Conn,
			) error {
				s.SetNoWait(true)
				_, err := io.Copy(s, s)
				if err == nil {
					stuck <- struct{}{}
					s.SetNoWait(false)
					_ = th.Sleep(time.Hour)
				}
				return err
			})
			must.Do(t, err)
			addr = srv.Addr().String()
		})
		idle, late, waits := caller(t, addr), caller(t, addr), caller(t, addr)
		for _, c := range []net.Conn{idle, late, waits} {
			asks(t, c, "hello")
		}
		_ = waits.(*net.TCPConn).CloseWrite()
		<-stuck
		hold := make(chan struct{})
		_ = ls.All[0].Post(func() { <-hold })
		_, _ = io.WriteString(late, "in flight")
		go close(hold)
		ls.Stop(20 * time.Millisecond)
		for _, c := range []net.Conn{idle, late, waits} {
			want := map[net.Conn]string{late: "in flight"}[c]
			rest, err := io.ReadAll(c)
			if c == late && invariants.Enabled {
				continue // the last read may be a forced EAGAIN
			}
			if string(rest) != want || err != nil {
				t.Errorf("at the stop: %q, %v; want %q", rest, err, want)
			}
		}
	}, plain, direct)
}

// TestSession: a handler that stays with its connection has what was sent before a stop, and then
// the end; the stop does not wait for the client.
func TestSession(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		addr := "127.0.0.1:0"
		m.Loops = 1
		ended := make(chan error, 2)
		ls := loops.Start(t, m, quiet, func(l *loop.Loop) {
			srv, err := stream.StartServer(l, "tcp", addr, -1, stream.Session(
				func(_ *loop.Thread, s *stream.Conn) error {
					_, err := io.Copy(struct{ io.Writer }{s}, struct{ io.Reader }{s})
					ended <- err
					return err
				}))
			must.Do(t, err)
			addr = srv.Addr().String()
		})
		idle, leaves := caller(t, addr), caller(t, addr)
		for _, c := range []net.Conn{idle, leaves} {
			asks(t, c, "hello")
			asks(t, c, "again")
		}
		leaves.Close()
		if err := <-ended; err != nil {
			t.Errorf("the client has left: %v", err)
		}
		ls.Stop(time.Hour)
		if err := <-ended; err != nil {
			t.Errorf("at the stop: %v", err)
		}
		if n, err := idle.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the client gets %d bytes, %v", n, err)
		}
	}, plain, direct)
}

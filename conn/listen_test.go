package conn_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/loop"
)

// serving runs as many loops as the mode has, each made ready by begin, until stop.
func serving(t *testing.T, m mode, begin func(l *loop.Loop)) (loops []*loop.Loop, stop func(grace time.Duration)) {
	t.Helper()
	for range m.loops {
		l, err := loop.New(loop.Options{Handoff: m.handoff, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		begin(l)
		loops = append(loops, l)
	}
	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() {
			if err := l.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	stop = func(grace time.Duration) {
		for _, l := range loops {
			l.Stop(grace)
		}
		running.Wait()
	}
	t.Cleanup(func() { stop(0) })
	return loops, stop
}

// on calls f on a loop and waits for it.
func on(t *testing.T, l *loop.Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	must(t, l.Post(func() { f(); close(done) }))
	<-done
}

// caller is an ordinary connection.
func caller(t *testing.T, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if strings.Contains(addr, "/") {
		network = "unix"
	}
	c, err := net.Dial(network, addr)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// asks sends a message and checks the echo.
func asks(t *testing.T, c net.Conn, message string) {
	t.Helper()
	_, err := io.WriteString(c, message)
	must(t, err)
	got := make([]byte, len(message))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != message {
		t.Fatalf("got %q, %v; want %q", got, err, message)
	}
}

// accepting serves an echo the long way, with a thread for each connection.
func accepting(t *testing.T, l *loop.Loop, ln net.Listener) {
	l.Go(func(*loop.Thread) {
		for {
			c, err := ln.Accept()
			if err != nil {
				wants(t, "the end of Accept", err, net.ErrClosed, "accept")
				return
			}
			l.Go(func(*loop.Thread) {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
}

func TestListen(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		for _, network := range []string{"tcp", "unix"} {
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr, m.loops = filepath.Join(t.TempDir(), "socket"), 1
			}
			var listeners []*conn.StreamListener
			loops, stop := serving(t, m, func(l *loop.Loop) {
				ln, err := conn.Listen(l, network, addr)
				must(t, err)
				addr = ln.Addr().String()
				listeners = append(listeners, ln)
				accepting(t, l, ln)
			})
			var clients []net.Conn
			for range 20 {
				c := caller(t, addr)
				asks(t, c, "hello")
				clients = append(clients, c)
			}
			on(t, loops[0], func() {
				must(t, listeners[0].Close())
				wants(t, "second Close", listeners[0].Close(), net.ErrClosed, "close")
			})
			if network == "unix" {
				if _, err := os.Stat(addr); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the path is still there: %v", err)
				}
			}
			for _, c := range clients { // what was accepted goes on
				asks(t, c, "again")
				_ = c.(interface{ CloseWrite() error }).CloseWrite()
				if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
					t.Errorf("after the end: %q, %v", rest, err)
				}
			}
			began := time.Now()
			stop(time.Minute) // the other listeners' threads end by themselves
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the stop took %v", d)
			}
		}
	}, plain, direct, several)
}

func TestListenErrors(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "taken")
	must(t, os.WriteFile(taken, nil, 0o600))
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		serve := func(network, address string) error {
			_, err := conn.ServeStreams(l, network, address, 0, nil)
			return err
		}
		listen := func(network, address string) error {
			_, err := conn.Listen(l, network, address)
			return err
		}
		for _, f := range []func(network, address string) error{serve, listen} {
			for _, test := range []struct{ network, address, want string }{
				{"udp", "127.0.0.1:0", "network must be"},
				{"tcp", "127.0.0.1", "want host:port"},
				{"tcp", "203.0.113.1:0", "cannot assign"},
				{"unix", taken, "in use"},
			} {
				if err := f(test.network, test.address); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%s %s: %v, want %s", test.network, test.address, err, test.want)
				}
			}
		}
	})
}

// TestAcceptWithoutDescriptors: connections wait until there are some again.
func TestAcceptWithoutDescriptors(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		ln, err := conn.Listen(l, "tcp", "127.0.0.1:0")
		must(t, err)
		x := caller(t, ln.Addr().String())
		l.Go(func(th *loop.Thread) {
			restore := noDescriptors(t)
			th.Go(func(th *loop.Thread) error {
				_ = th.Sleep(15 * time.Millisecond)
				restore()
				return nil
			})
			c, err := ln.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			if c.RemoteAddr().String() != x.LocalAddr().String() {
				t.Errorf("accepted %v, not %v", c.RemoteAddr(), x.LocalAddr())
			}
			_ = c.Close()
			must(t, ln.Close())
			_, err = ln.Accept()
			wants(t, "Accept after Close", err, net.ErrClosed, "accept")
		})
	})
}

// TestStopWithoutDescriptors: Accept ends, though it waits for better times.
func TestStopWithoutDescriptors(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		ln, err := conn.Listen(l, "tcp", "127.0.0.1:0")
		must(t, err)
		caller(t, ln.Addr().String())
		l.Go(func(th *loop.Thread) {
			ended := false
			defer func() {
				if !ended {
					t.Error("Accept does not end")
				}
			}()
			defer ln.Close()
			defer noDescriptors(t)()
			th.Go(func(*loop.Thread) error { // runs when Accept waits
				l.Stop(time.Second)
				return nil
			})
			_, err := ln.Accept()
			wants(t, "Accept", err, net.ErrClosed, "accept")
			ended = true
		})
	})
}

func TestOneThreadAccepts(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		ln, err := conn.Listen(l, "tcp", "127.0.0.1:0")
		must(t, err)
		if _, err := ln.Accept(); err == nil {
			t.Error("accepted without a thread")
		}
		l.Go(func(th *loop.Thread) {
			_, err := ln.Accept()
			wants(t, "closed while it waits", err, net.ErrClosed, "accept")
		})
		l.Go(func(th *loop.Thread) {
			_, err := ln.Accept()
			wants(t, "second", err, loop.ErrAwaited, "accept")
			must(t, ln.Close())
		})
	})
}

// TestServeStreams: a handler that takes a line each time it is called, in whatever pieces it comes.
func TestServeStreams(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		run(t, func(t *testing.T, m mode) {
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr, m.loops = filepath.Join(t.TempDir(), "socket"), 1
			}
			loops, stop := serving(t, m, func(l *loop.Loop) {
				srv, err := conn.ServeStreams(l, network, addr, 0, func(th *loop.Thread, s *conn.Stream) error {
					if l.Current() != th || s.RemoteAddr().Network() != network {
						t.Errorf("on %v, from %v", l.Current(), s.RemoteAddr())
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
				must(t, err)
				addr = srv.Addr().String()
			})
			goroutines := runtime.NumGoroutine()
			for range 30 {
				c := caller(t, addr)
				asks(t, c, "hello\n")
				asks(t, c, "three\nlines\natend\n") // the handler leaves two of them, and is called again
			}
			slow := caller(t, addr)
			for _, piece := range strings.Split("slowl\n", "") {
				_, _ = io.WriteString(slow, piece)
				runtime.Gosched()
			}
			if _, err := io.ReadFull(slow, make([]byte, 6)); err != nil {
				t.Error(err)
			}
			on(t, loops[0], func() {})
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
			stop(time.Minute)
			if rest, err := io.ReadAll(slow); len(rest) > 0 || err != nil {
				t.Errorf("at the stop: %q, %v", rest, err)
			}
		}, plain, direct, several)
	}
}

// TestServeStreamsEndsWithTheInput, whether the handler has seen the end of it, has swallowed it as io.Copy does, or
// has an error instead; and it does not go on for a handler that does not read at all.
func TestServeStreamsEndsWithTheInput(t *testing.T) {
	handlers := map[string]func(th *loop.Thread, s *conn.Stream) error{
		"copies": func(_ *loop.Thread, s *conn.Stream) error { _, err := io.Copy(io.Discard, s); return err },
		"tries": func(_ *loop.Thread, s *conn.Stream) error {
			s.SetNoWait(true)
			_, err := s.Read(make([]byte, 9))
			return err
		},
		"hides errors": func(_ *loop.Thread, s *conn.Stream) error { _, _ = s.Read(make([]byte, 9)); return nil },
		"wraps": func(_ *loop.Thread, s *conn.Stream) error {
			s.SetNoWait(true)
			for {
				if _, err := s.Read(make([]byte, 1)); err != nil {
					return errors.Join(err, nil)
				}
			}
		},
		"ignores it": func(_ *loop.Thread, s *conn.Stream) error { return nil },
	}
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			for _, reset := range []bool{false, true} {
				onLoop(t, func(t *testing.T, l *loop.Loop) {
					calls := 0
					counting := func(th *loop.Thread, s *conn.Stream) error {
						calls++
						return handler(th, s)
					}
					srv, err := conn.ServeStreams(l, "tcp", "127.0.0.1:0", 0, counting)
					must(t, err)
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
						must(t, srv.Close())
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

func TestServeStreamsIdleTimeout(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		handler := func(th *loop.Thread, s *conn.Stream) error {
			_, err := s.Read(make([]byte, 9))
			if err == nil {
				err = th.Sleep(100 * time.Millisecond) // that is not idle
			}
			return err
		}
		srv, err := conn.ServeStreams(l, "tcp", "127.0.0.1:0", 50*time.Millisecond, handler)
		must(t, err)
		l.Go(func(th *loop.Thread) {
			began := time.Now()
			silent, err := conn.Dial(th, "tcp", srv.Addr().String(), 0)
			must(t, err)
			defer silent.Close()
			other, err := conn.Dial(th, "tcp", srv.Addr().String(), 0)
			must(t, err)
			defer other.Close()
			_, _ = other.Write([]byte("x"))
			if _, err := silent.Read(make([]byte, 1)); err != io.EOF || time.Since(began) < 50*time.Millisecond {
				t.Errorf("silent from the start: %v after %v", err, time.Since(began))
			}
			if _, err := other.Read(make([]byte, 1)); err != io.EOF || time.Since(began) < 150*time.Millisecond {
				t.Errorf("silent later: %v after %v", err, time.Since(began))
			}
			must(t, srv.Close())
		})
	})
}

// TestServeStreamsStops: what was sent before the stop is served, a handler that waits gets its time, and no more.
func TestServeStreamsStops(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		addr := "127.0.0.1:0"
		stuck := make(chan struct{}, 1)
		loops, stop := serving(t, m, func(l *loop.Loop) {
			srv, err := conn.ServeStreams(l, "tcp", addr, 0, func(th *loop.Thread, s *conn.Stream) error {
				s.SetNoWait(true)
				_, err := io.Copy(s, s)
				if err == nil {
					stuck <- struct{}{}
					s.SetNoWait(false)
					_ = th.Sleep(time.Hour)
				}
				return err
			})
			must(t, err)
			addr = srv.Addr().String()
		})
		idle, late, waits := caller(t, addr), caller(t, addr), caller(t, addr)
		for _, c := range []net.Conn{idle, late, waits} {
			asks(t, c, "hello")
		}
		_ = waits.(*net.TCPConn).CloseWrite()
		<-stuck
		hold := make(chan struct{})
		_ = loops[0].Post(func() { <-hold })
		_, _ = io.WriteString(late, "in flight")
		go close(hold)
		stop(20 * time.Millisecond)
		for _, c := range []net.Conn{idle, late, waits} {
			want := map[net.Conn]string{late: "in flight"}[c]
			rest, err := io.ReadAll(c)
			if c == late && invariants.Enabled {
				continue // the last read can be made to find nothing
			}
			if string(rest) != want || err != nil {
				t.Errorf("at the stop: %q, %v; want %q", rest, err, want)
			}
		}
	}, plain, direct)
}

// TestDetach: an accepted, a dialed and a served stream go on as connections of ordinary goroutines.
func TestDetach(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		detached := make(chan net.Conn, 1)
		detach := func(s *conn.Stream) {
			c, err := s.Detach()
			if err != nil {
				t.Error(err)
			}
			_, err = s.Read(make([]byte, 1))
			wants(t, "Read after Detach", err, net.ErrClosed, "read")
			wants(t, "Close after Detach", s.Close(), net.ErrClosed, "close")
			detached <- c
		}
		var accepts *conn.StreamListener
		var serves *conn.StreamServer
		plainListener, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		defer plainListener.Close()
		loops, _ := serving(t, m, func(l *loop.Loop) {
			accepts, err = conn.Listen(l, "tcp", "127.0.0.1:0")
			must(t, err)
			l.Go(func(*loop.Thread) {
				c, err := accepts.Accept()
				must(t, err)
				detach(c.(*conn.Stream))
			})
			serves, err = conn.ServeStreams(l, "tcp", "127.0.0.1:0", 0, func(th *loop.Thread, s *conn.Stream) error {
				_, _ = s.Read(make([]byte, 1))
				detach(s)
				if err := th.Sleep(time.Millisecond); err != nil { // the thread lives on
					t.Error(err)
				}
				return nil
			})
			must(t, err)
			l.Go(func(th *loop.Thread) {
				s, err := conn.Dial(th, "tcp", plainListener.Addr().String(), 0)
				must(t, err)
				detach(s)
			})
		})
		peer, err := plainListener.Accept()
		must(t, err)
		check := func(what string, peer net.Conn) {
			t.Helper()
			c := <-detached
			defer c.Close()
			defer peer.Close()
			if _, ok := c.(*net.TCPConn); !ok || c.RemoteAddr().String() != peer.LocalAddr().String() {
				t.Errorf("%s: %T from %v", what, c, c.RemoteAddr())
			}
			go func() { _, _ = io.Copy(c, c) }()
			asks(t, peer, "hello")
			_ = c.SetReadDeadline(time.Now())
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: deadline: %v", what, err)
			}
			_ = c.SetDeadline(time.Time{})
			go func() { _, _ = c.Write(make([]byte, 1<<20)); _ = c.(*net.TCPConn).CloseWrite() }()
			if n, err := io.Copy(io.Discard, peer); n != 1<<20 || err != nil {
				t.Errorf("%s: %d bytes, %v", what, n, err)
			}
		}
		check("dialed", peer)
		check("accepted", caller(t, accepts.Addr().String()))
		c := caller(t, serves.Addr().String())
		_, _ = c.Write([]byte("x"))
		check("served", c)
		on(t, loops[0], func() {
			if n := loops[0].Threads(); n > 2 { // the listener, and perhaps the served one's
				t.Errorf("%d threads left", n)
			}
		})
	}, plain, direct)
}

// TestDetachEndsWaits: another thread waits, and no descriptors are left for the new connection.
func TestDetachEndsWaits(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		l.Go(func(*loop.Thread) {
			_, err := a.Read(make([]byte, 1))
			wants(t, "Read", err, net.ErrClosed, "read")
		})
		l.Go(func(*loop.Thread) {
			restore := noDescriptors(t)
			_, err := a.Detach()
			restore()
			wants(t, "Detach", err, syscall.EMFILE, "detach")
			if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("the peer: %d, %v", n, err)
			}
			_ = b.Close()
		})
	})
}

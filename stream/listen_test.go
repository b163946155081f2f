package stream_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// caller returns an ordinary connection.
func caller(t *testing.T, addr string) net.Conn {
	t.Helper()
	network := "tcp"
	if strings.Contains(addr, "/") {
		network = "unix"
	}
	c, err := net.Dial(network, addr)
	must.Do(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// asks sends a message and checks the echo.
func asks(t *testing.T, c net.Conn, message string) {
	t.Helper()
	_, err := io.WriteString(c, message)
	must.Do(t, err)
	got := make([]byte, len(message))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != message {
		t.Fatalf("got %q, %v; want %q", got, err, message)
	}
}

// accepting serves an echo with a listener, and a thread for each connection.
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
				addr, m.Loops = filepath.Join(t.TempDir(), "socket"), 1
			}
			var listeners []*stream.Listener
			ls := loops.Start(t, m, quiet, func(l *loop.Loop) {
				ln, err := stream.Listen(l, network, addr)
				must.Do(t, err)
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
			ls.On(func(*loop.Loop) {
				must.Do(t, listeners[0].Close())
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
			ls.Stop(time.Minute) // the other listeners' threads end by themselves
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("the stop took %v", d)
			}
		}
	}, plain, direct, several)
}

func TestListenErrors(t *testing.T) {
	taken := filepath.Join(t.TempDir(), "taken")
	must.Do(t, os.WriteFile(taken, nil, 0o600))
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		serve := func(network, address string) error {
			_, err := stream.StartServer(l, network, address, -1, nil)
			return err
		}
		listen := func(network, address string) error {
			_, err := stream.Listen(l, network, address)
			return err
		}
		for _, f := range []func(network, address string) error{serve, listen} {
			for _, test := range []struct{ network, address, want string }{
				{"udp", "127.0.0.1:0", "network must be"},
				{"tcp", "127.0.0.1", "want host:port"},
				{"tcp", "203.0.113.1:0", "cannot assign"},
				{"unix", taken, "in use"},
			} {
				if err := f(test.network, test.address); err == nil ||
					!strings.Contains(err.Error(), test.want) {
					t.Errorf("%s %s: %v, want %s", test.network, test.address, err, test.want)
				}
			}
		}
	})
}

// TestAcceptWithoutDescriptors: connections wait until there are descriptors again.
func TestAcceptWithoutDescriptors(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		ln, err := stream.Listen(l, "tcp", "127.0.0.1:0")
		must.Do(t, err)
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
			must.Do(t, ln.Close())
			_, err = ln.Accept()
			wants(t, "Accept after Close", err, net.ErrClosed, "accept")
		})
	})
}

// TestStopWithoutDescriptors: a stop ends Accept while it waits for descriptors.
func TestStopWithoutDescriptors(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		ln, err := stream.Listen(l, "tcp", "127.0.0.1:0")
		must.Do(t, err)
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
		ln, err := stream.Listen(l, "tcp", "127.0.0.1:0")
		must.Do(t, err)
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
			must.Do(t, ln.Close())
		})
	})
}

// TestDetach: an accepted, a dialed and a served stream go on as connections of ordinary
// goroutines.
func TestDetach(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		detached := make(chan net.Conn, 1)
		detach := func(s *stream.Conn) {
			c, err := s.Detach()
			if err != nil {
				t.Error(err)
			}
			_, err = s.Read(make([]byte, 1))
			wants(t, "Read after Detach", err, net.ErrClosed, "read")
			wants(t, "Close after Detach", s.Close(), net.ErrClosed, "close")
			detached <- c
		}
		var accepts *stream.Listener
		var serves *stream.Server
		plainListener, err := net.Listen("tcp", "127.0.0.1:0")
		must.Do(t, err)
		defer plainListener.Close()
		ls := loops.Start(t, m, quiet, func(l *loop.Loop) {
			accepts, err = stream.Listen(l, "tcp", "127.0.0.1:0")
			must.Do(t, err)
			l.Go(func(*loop.Thread) {
				c, err := accepts.Accept()
				must.Do(t, err)
				detach(c.(*stream.Conn))
			})
			serves, err = stream.StartServer(l, "tcp", "127.0.0.1:0", -1, func(
				th *loop.Thread, s *stream.Conn,
			) error {
				_, _ = s.Read(make([]byte, 1))
				detach(s)
				if err := th.Sleep(time.Millisecond); err != nil { // the thread lives on
					t.Error(err)
				}
				return nil
			})
			must.Do(t, err)
			l.Go(func(th *loop.Thread) {
				s, err := stream.Dial(th, -1, "tcp", plainListener.Addr().String())
				must.Do(t, err)
				detach(s)
			})
		})
		peer, err := plainListener.Accept()
		must.Do(t, err)
		check := func(what string, peer net.Conn) {
			t.Helper()
			c := <-detached
			defer c.Close()
			defer peer.Close()
			if _, ok := c.(*net.TCPConn); !ok ||
				c.RemoteAddr().String() != peer.LocalAddr().String() {
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
		ls.On(func(*loop.Loop) {
			if n := ls.All[0].Threads(); n > 2 { // the listener, and perhaps the served one's
				t.Errorf("%d threads left", n)
			}
		})
	}, plain, direct)
}

// TestDetachEndsWaits: Detach ends the wait of another thread, and fails if no descriptors are
// left.
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

package stream_test

import (
	"io"
	"net"
	"testing"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// costs returns what one call of f allocates, and how often the loop asks epoll for it.
func costs(t *testing.T, l *loop.Loop, f func()) (allocs float64, ctls int64) {
	t.Helper()
	var before, after loop.Stats
	f()
	loops.On(t, l, func(*loop.Loop) { before = l.Stats() })
	allocs = testing.AllocsPerRun(200, f)
	loops.On(t, l, func(*loop.Loop) { after = l.Stats() })
	return allocs, after.Ctls - before.Ctls
}

// TestMessageIsFree: a message that arrives, is read and answered costs nothing, in each of the
// ways to write a service.
func TestMessageIsFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost epoll_ctl")
	handlers := map[string]func(th *loop.Thread, s *stream.Conn) error{
		"copy in try mode": func(_ *loop.Thread, s *stream.Conn) error {
			s.SetNoWait(true)
			_, err := io.Copy(s, s)
			return err
		},
		"copy": func(_ *loop.Thread, s *stream.Conn) error {
			_, err := io.Copy(s, s)
			return err
		},
		"Read and Write": func(th *loop.Thread, s *stream.Conn) error {
			buf, _ := th.Layer().Local().([]byte)
			if buf == nil {
				buf = make([]byte, 4096)
				th.Layer().SetLocal(buf)
			}
			n, err := s.Read(buf)
			if err == nil {
				_, err = s.Write(buf[:n])
			}
			return err
		},
		"Send": func(_ *loop.Thread, s *stream.Conn) error {
			var buf [4096]byte
			for {
				n, err := s.Read(buf[:])
				if err != nil {
					return err
				}
				if _, err := s.Send(buf[:1], buf[1:n], false); err != nil {
					return err
				}
			}
		},
	}
	message := make([]byte, 1024)
	for name, handler := range handlers {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, m mode) {
				addr := ""
				ls := loops.Start(t, m, quiet, func(l *loop.Loop) {
					srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1, handler)
					must.Do(t, err)
					addr = srv.Addr().String()
				})
				f, err := caller(t, addr).(*net.TCPConn).File() // blocking, and out of Go's poller
				must.Do(t, err)
				defer f.Close()
				fd, buf := int(f.Fd()), make([]byte, len(message))
				allocs, ctls := costs(t, ls.All[0], func() {
					if _, err := unix.Write(fd, message); err != nil {
						t.Fatal(err)
					}
					for got := 0; got < len(buf); {
						n, err := unix.Read(fd, buf[got:])
						if n <= 0 {
							t.Fatal(n, err)
						}
						got += n
					}
				})
				if allocs != 0 || ctls != 0 {
					t.Errorf("%v allocations, %d calls of epoll_ctl", allocs, ctls)
				}
			}, plain, direct)
		})
	}
}

// TestStreamOfItsOwnIsFree: a message between two streams of a loop costs nothing, a deadline
// included. Neither stream is its thread's own.
func TestStreamOfItsOwnIsFree(t *testing.T) {
	ci.Without(t, invariants.Enabled, "short reads and writes cost epoll_ctl")
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		a, b := pair(t, l, "tcp")
		l.Go(func(*loop.Thread) {
			_, _ = io.Copy(b, b)
			_ = b.Close()
		})
		l.Go(func(*loop.Thread) {
			defer a.Close()
			message := make([]byte, 100)
			ask := func() {
				_ = a.SetDeadline(l.Time().Add(1 << 40))
				if _, err := a.Write(message); err != nil {
					t.Error(err)
				}
				if _, err := io.ReadFull(a, message); err != nil {
					t.Error(err)
				}
			}
			ask()
			before := l.Stats().Ctls
			if n := testing.AllocsPerRun(200, ask); n != 0 {
				t.Errorf("%v allocations", n)
			}
			if n := l.Stats().Ctls - before; n != 0 {
				t.Errorf("%d calls of epoll_ctl", n)
			}
		})
	})
}

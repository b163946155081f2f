package loop_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestStopped: threads that wait on and on can be told of a stop, and those that ask after it need
// not wait.
func TestStopped(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		waiting := 0
		for range 3 {
			l.Go(func(th *loop.Thread) {
				if _, err := th.AwaitAny(0, l.Stopped()); err == nil {
					t.Error("stopped before it was")
				}
				waiting++
				for range 2 {
					if i, err := th.AwaitAny(time.Minute, new(loop.Promise[int]), l.Stopped()); i != 1 ||
						err != nil {
						t.Errorf("source %d, %v", i, err)
					}
				}
			})
		}
		l.Go(func(th *loop.Thread) {
			for waiting < 3 {
				th.Yield()
			}
			l.Stop(time.Hour)
		})
		mustRun(t, l)
	})
}

// TestWakeWaiters: a thread that waits for a descriptor looks again, a reader and a writer alike;
// idle threads are left alone.
func TestWakeWaiters(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fds := socketpair(t)
		d := new(loop.Shared)
		must.Do(t, l.Layer().Register(d, fds[0]))
		l.Layer().WakeWaiters(&d.Descriptor)
		fill(fds[0])
		woken := 0
		for _, wait := range []func(th *loop.Thread) error{
			func(th *loop.Thread) error { return d.AwaitRead(th, time.Minute) },
			func(th *loop.Thread) error { return d.AwaitWrite(th, time.Minute) },
		} {
			l.Go(func(th *loop.Thread) {
				if err := wait(th); err != nil {
					t.Error(err)
				}
				woken++
			})
		}
		idle, c, runs := idleOnce(t, l)
		l.Go(func(th *loop.Thread) {
			for *runs == 0 {
				_ = th.Sleep(time.Millisecond)
			}
			th.Yield()
			l.Layer().WakeWaiters(&d.Descriptor)
			l.Layer().WakeWaiters(idle.Thread.Layer().Descriptor())
			th.Yield()
			if woken != 2 || *runs != 1 {
				t.Errorf("%d of 2 woken, idle thread run %d times", woken, *runs)
			}
			_ = c.Close()
			l.Layer().Deregister(&d.Descriptor)
		})
		mustRun(t, l)
	})
}

// TestAThreadReleasesItsOwnDescriptor, while it runs: its next wait is not cut short, nor has its
// client left. The loop has no claim to what it has released.
func TestAThreadReleasesItsOwnDescriptor(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			fd := l.Layer().Deregister(b.Thread.Layer().Descriptor())
			if fd < 0 || b.FD() != -1 || l.Layer().Deregister(b.Thread.Layer().Descriptor()) != -1 {
				t.Errorf("released %d, and has %d", fd, b.FD())
			}
			began := time.Now()
			if err := b.Sleep(20 * time.Millisecond); err != nil ||
				time.Since(began) < 20*time.Millisecond || b.Gone() {
				t.Errorf("slept %v, %v, gone %v", time.Since(began), err, b.Gone())
			}
			if _, err := unix.Write(fd, []byte("still there")); err != nil {
				t.Error(err)
			}
			unix.Close(fd)
			return coro.Abort
		}})
		_, _ = c.Write([]byte("x"))
		mustRun(t, l)
		if n, err := c.Read(make([]byte, 99)); n != len("still there") || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

// TestTheLoopClosesWhatIsLeft: a thread that is killed before it began cannot close what it was to
// use.
func TestTheLoopClosesWhatIsLeft(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fds := socketpair(t)
		fd := must.Get(unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0))(t)
		d := new(loop.Shared)
		must.Do(t, l.Layer().Register(d, fd))
		l.Go(func(th *loop.Thread) {
			l.Stop(0)
			_ = th.Sleep(time.Hour)
		})
		mustRun(t, l)
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); d.FD() != -1 || err != unix.EBADF {
			t.Errorf("descriptor %d, %v", d.FD(), err)
		}
	})
}

// TestDescriptorsMoveBytes: gathered from buffers, and from socket to socket by way of a pipe.
func TestDescriptorsMoveBytes(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		x, y := socketpair(t), socketpair(t)
		a, b, c := new(loop.Shared), new(loop.Shared), new(loop.Shared)
		for fd, d := range map[int]*loop.Shared{x[0]: a, x[1]: b, y[0]: c} {
			must.Do(t, l.Layer().Register(d, fd))
		}
		r, w := pipe(t)
		l.Go(func(th *loop.Thread) {
			const text = "gathered"
			n, errno := a.Sendv([]byte("gat"), []byte("hered"))
			// less than all, or EAGAIN, only under the invariants tag
			for sent := n; sent < len(text); sent += n {
				if !invariants.Enabled {
					t.Fatalf("sendmsg: %d, %v", n, errno)
				}
				n, _ = a.Send([]byte(text[sent:]), false)
			}
			if n, errno := b.SpliceTo(w, 100); n != len(text) || errno != 0 {
				t.Errorf("to the pipe: %d, %v", n, errno)
			}
			if _, errno := b.SpliceTo(w, 100); errno != unix.EAGAIN {
				t.Errorf("there is no more: %v", errno)
			}
			if b.Unread() {
				t.Error("read empty, and may have more")
			}
			if n, errno := c.SpliceFrom(r, 100); n != len(text) || errno != 0 {
				t.Errorf("from the pipe: %d, %v", n, errno)
			}
			got := make([]byte, 99)
			if n, _ := unix.Read(y[1], got); string(got[:n]) != text {
				t.Errorf("got %q", got[:n])
			}
			for _, d := range []*loop.Shared{a, b, c} {
				l.Layer().Deregister(&d.Descriptor) // socketpair closes them
				if err := d.AwaitRead(th, -1); !errors.Is(err, net.ErrClosed) {
					t.Errorf("waited for what was released: %v", err)
				}
			}
		})
		mustRun(t, l)
	})
}

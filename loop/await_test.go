package loop_test

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func pipe(t *testing.T) (r, w int) {
	t.Helper()
	var p [2]int
	must.Do(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

func TestAwaitOtherDescriptors(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		var got string
		l.Go(func(th *loop.Thread) {
			buf := make([]byte, 8)
			for range 3 {
				if err := th.AwaitRead(time.Minute, r); err != nil {
					t.Error(err)
					return
				}
				n, _ := unix.Read(r, buf)
				got += string(buf[:n])
			}
			if err := th.AwaitRead(time.Millisecond, r); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("nothing there: %v", err)
			}
			if err := th.AwaitRead(0, r); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("timeout 0: %v", err)
			}
			if err := th.AwaitWrite(-1, w); err != nil {
				t.Errorf("AwaitWrite: %v", err)
			}
		})
		l.Go(func(th *loop.Thread) {
			for _, s := range []string{"a", "b", "c"} {
				_ = th.Sleep(2 * time.Millisecond)
				_, _ = unix.Write(w, []byte(s))
			}
		})
		mustRun(t, l)
		if got != "abc" {
			t.Errorf("read %q", got)
		}
	})
}

func TestAwaitErrors(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		file := must.Get(os.Open("await_test.go"))(t)
		defer file.Close()
		l.Go(func(th *loop.Thread) {
			if err := th.AwaitRead(time.Minute, r); err != nil {
				t.Errorf("first: %v", err)
			}
		})
		l.Go(func(th *loop.Thread) {
			if err := th.AwaitRead(time.Minute, r); !errors.Is(err, loop.ErrAwaited) {
				t.Errorf("second: %v, want ErrAwaited", err)
			}
			if err := th.AwaitRead(time.Minute, 1<<20); !errors.Is(err, unix.EBADF) {
				t.Errorf("bad descriptor: %v", err)
			}
			if err := th.AwaitRead(time.Minute, -1); !errors.Is(err, unix.EBADF) {
				t.Errorf("descriptor -1: %v", err)
			}
			if err := th.AwaitRead(time.Minute, int(file.Fd())); !errors.Is(err, unix.EPERM) {
				t.Errorf("regular file: %v", err)
			}
			_, _ = unix.Write(w, []byte("x"))
		})
		mustRun(t, l)
	})
}

func TestAwaitHangUp(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fds := must.Get(unix.Socketpair(unix.AF_UNIX,
			unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))(t)
		defer unix.Close(fds[0])
		l.Go(func(th *loop.Thread) {
			if err := th.AwaitRead(time.Minute, fds[0]); err != nil {
				t.Error(err)
			}
			if n, errno := unix.Read(fds[0], make([]byte, 1)); n != 0 ||
				errno != nil && errno != unix.EAGAIN {
				t.Errorf("read %d, %v", n, errno)
			}
		})
		l.Go(func(th *loop.Thread) { unix.Close(fds[1]) })
		mustRun(t, l)
	})
}

func TestAwaitEndsWhenTheClientLeavesAndLeavesNothing(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		r, w := pipe(t)
		var err error
		entered := make(chan struct{})
		c := serve(t, l, &task{run: func(b *task) coro.Code {
			_, _ = unix.Read(b.FD(), make([]byte, 1))
			close(entered)
			err = b.AwaitRead(time.Minute, r)
			return coro.Abort
		}})
		_, _ = c.Write([]byte("x"))
		stop := false
		l.Go(func(th *loop.Thread) {
			for !stop {
				_ = th.Sleep(time.Millisecond)
			}
			if err := th.AwaitRead(0, r); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the raw descriptor was not released: %v", err)
			}
		})
		wait := start(t, l)
		<-entered
		c.Close()
		for gone := false; !gone; {
			on(t, l, func() { gone = l.Threads() == 1 })
		}
		_, _ = unix.Write(w, nil)
		on(t, l, func() { stop = true })
		wait()
		if !errors.Is(err, loop.ErrClientGone) {
			t.Errorf("await: %v", err)
		}
	})
}

func TestAwaitedDescriptorClosedAndReused(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var p [2]int
		must.Do(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
		l.Go(func(th *loop.Thread) {
			if err := th.AwaitRead(20*time.Millisecond, p[0]); !errors.Is(err, net.ErrClosed) {
				t.Errorf("closed under the await: %v", err)
			}
		})
		var reused int
		l.Go(func(th *loop.Thread) {
			unix.Close(p[0])
			unix.Close(p[1])
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
				0)
			if err != nil {
				t.Error(err)
				return
			}
			reused = fds[0]
			b := &task{run: func(b *task) coro.Code {
				n, _ := unix.Read(b.FD(), make([]byte, 1))
				if n == 0 {
					return coro.WantRead
				}
				return coro.Abort
			}}
			if err := l.Attach(&b.Thread, fds[0], b, time.Minute); err != nil {
				t.Error(err)
			}
			_ = th.Sleep(40 * time.Millisecond) // past the first timeout, which must not touch the new owner
			_, _ = unix.Write(fds[1], []byte("x"))
			for th.Loop().Threads() > 1 {
				_ = th.Sleep(time.Millisecond)
			}
			unix.Close(fds[1])
		})
		mustRun(t, l)
		if reused != p[0] {
			t.Errorf("the descriptor was not reused, which is what this is about: %d, %d", p[0], reused)
		}
	})
}

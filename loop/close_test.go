package loop_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestCloseTakesOutOfEpoll: a connection costs one call of epoll_ctl in its life.
func TestCloseTakesOutOfEpoll(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		s := openPair(t)
		defer unix.Close(s[1])
		var ctls int64
		b := &task{run: func(*task) coro.Code { return coro.Abort }, ended: make(chan struct{})}
		l.Go(func(*loop.Thread) {
			ctls = l.Stats().Ctls
			if err := l.Attach(&b.Thread, s[0], b, -1); err != nil {
				t.Error(err)
			}
			b.Thread.Layer().Wake()
		})
		mustRun(t, l)
		<-b.ended
		if n := l.Stats().Ctls - ctls; n != 1 {
			t.Errorf("%d calls of epoll_ctl", n)
		}
		if _, err := unix.Read(s[0], make([]byte, 1)); err != unix.EBADF {
			t.Errorf("the descriptor is not closed: %v", err)
		}
	})
}

// TestCloseOfASharedListener: a loop hears no more of a listener that it has closed, although
// another process still listens on the same socket.
func TestCloseOfASharedListener(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fd := must.Get(loop.Listen("tcp", "127.0.0.1:0", false))(t)
		duplicate := must.Get(unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0))(t)
		defer unix.Close(duplicate)
		ln := must.Get(l.Accept(fd, func(fd int, _ netip.AddrPort) { unix.Close(fd) }))(t)
		l.Go(func(th *loop.Thread) {
			ln.Close()
			_ = th.Sleep(time.Millisecond) // the listener's last turn
			before := l.Stats().Events
			c, err := net.Dial("tcp", loop.LocalAddr(duplicate).String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			_ = th.Sleep(5 * time.Millisecond)
			if n := l.Stats().Events - before; n != 0 {
				t.Errorf("%d events", n)
			}
		})
		mustRun(t, l)
	})
}

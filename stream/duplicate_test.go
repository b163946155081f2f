package stream_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// TestCloseWithADuplicate: a stream that New has made leaves the loop with Close, although the
// caller has kept a duplicate of its socket. The duplicate can be given to New as well, also when
// it has the number of the one that was closed.
func TestCloseWithADuplicate(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) { closeWithADuplicate(t, th) })
	})
}

func closeWithADuplicate(t *testing.T, th *loop.Thread) {
	l := th.Loop()
	x, y := sockets(t, "unix")
	defer unix.Close(y)
	duplicate, err := unix.FcntlInt(uintptr(x), unix.F_DUPFD_CLOEXEC, 0)
	must.Do(t, err)
	s, err := stream.New(l, x)
	must.Do(t, err)
	must.Do(t, s.Close())

	before := l.Stats().Events
	_, err = unix.Write(y, []byte("x"))
	must.Do(t, err)
	must.Do(t, th.Sleep(5*time.Millisecond))
	if n := l.Stats().Events - before; n != 0 {
		t.Error(n, " events of a stream that is closed")
	}

	again, err := unix.FcntlInt(uintptr(duplicate), unix.F_DUPFD_CLOEXEC, 0)
	must.Do(t, err)
	unix.Close(duplicate)
	if again != x {
		must.Do(t, unix.Dup3(again, x, unix.O_CLOEXEC))
		unix.Close(again)
	}
	s, err = stream.New(l, x)
	must.Do(t, err)
	var b [1]byte
	_, err = s.Read(b[:])
	must.Do(t, err)
	must.Do(t, s.Close())
}

package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestStopAndRelease: a stop tells a thread whose descriptor is released before the stop, which
// goes by descriptors and does some in each turn, has come to it.
func TestStopAndRelease(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		s := openPair(t)
		defer unix.Close(s[1])
		fd, err := unix.FcntlInt(uintptr(s[0]), unix.F_DUPFD_CLOEXEC, 500) // comes late
		unix.Close(s[0])
		if err != nil {
			t.Fatal(err)
		}
		waiting, told := make(chan struct{}), false
		b := &task{run: func(b *task) coro.Code {
			close(waiting)
			_, err := b.AwaitAny(-1, l.Stopped())
			told = err == nil
			return coro.Abort
		}}
		must.Do(t, l.Attach(&b.Thread, fd, b, -1))
		b.Thread.Layer().Wake()
		wait := start(t, l)
		<-waiting
		on(t, l, func() {
			l.Stop(5 * time.Second)
			if err := l.Post(func() {
				unix.Close(l.Layer().Deregister(b.Layer().Descriptor()))
			}); err != nil {
				t.Error(err)
			}
		})
		wait()
		if !told {
			t.Error("the thread was killed after the grace period")
		}
	})
}

// TestStopOfASparseTable: a stop does not spend a turn on each few slots of the table that have no
// thread. There may be a million, and a turn of a busy loop takes milliseconds.
func TestStopOfASparseTable(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const far = 10000
		s := openPair(t)
		defer unix.Close(s[1])
		fd, err := unix.FcntlInt(uintptr(s[0]), unix.F_DUPFD_CLOEXEC, far)
		unix.Close(s[0])
		if err != nil {
			l.Close()
			t.Skip("the descriptor limit is too low: ", err)
		}
		var end loop.Stats
		b := &task{run: func(*task) coro.Code {
			end = l.Stats()
			return coro.Abort
		}}
		must.Do(t, l.Attach(&b.Thread, fd, b, -1))
		wait := start(t, l)
		var begin loop.Stats
		on(t, l, func() {
			begin = l.Stats()
			l.Stop(time.Minute)
		})
		wait()
		if n := end.Waits - begin.Waits; n == 0 || n > far/1000 {
			t.Errorf("the thread was told after %d turns", n)
		}
	})
}

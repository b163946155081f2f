package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestHeldUpIsNoWait: the time for which a thread has held the loop before its wait began is none
// that the peer has let pass.
func TestHeldUpIsNoWait(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		const kind = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
		s := must.Get(unix.Socketpair(unix.AF_UNIX, kind, 0))(t)
		defer unix.Close(s[1])
		var d loop.Shared
		l.Go(func(th *loop.Thread) {
			must.Do(t, l.Layer().Register(&d, s[0]))
			defer l.Layer().CloseDescriptor(&d.Descriptor)
			time.Sleep(1100 * time.Millisecond) // holds the loop
			time.AfterFunc(30*time.Millisecond, func() { _, _ = unix.Write(s[1], []byte("x")) })
			if err := d.AwaitRead(th, time.Second); err != nil {
				t.Error(err)
			}
		})
		must.Do(t, l.Run())
	})
}

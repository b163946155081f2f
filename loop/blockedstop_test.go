package loop_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// TestAwaitEnd: a loop that code holds up after the grace period is not waited for, and the error
// says where it is.
func TestAwaitEnd(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		h := newHold()
		begun := make(chan struct{})
		l.Go(func(*loop.Thread) {
			close(begun)
			h.locking()
		})
		for range 3 {
			l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
		}
		wait := start(t, l)
		<-begun
		l.Stop(0)
		var stuck *loop.StuckError
		err := l.Layer().AwaitEnd(time.Now(), 20*time.Millisecond)
		if !errors.As(err, &stuck) || !strings.Contains(stuck.Place, "watchdog_test.go:") ||
			!strings.Contains(err.Error(), stuck.Place) {
			t.Errorf("error %v", err)
		}
		h.release()
		want(t, l.Layer().AwaitEnd(time.Now().Add(time.Hour), time.Hour), nil)
		wait()
	})
}

package loop_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/loop"
)

// TestClientGoneIsCanceled: code of net/http knows a client that has left by context.Canceled.
func TestClientGoneIsCanceled(t *testing.T) {
	if err := fmt.Errorf("x: %w", loop.ErrClientGone); !errors.Is(err, context.Canceled) ||
		!errors.Is(err, loop.ErrClientGone) || errors.Is(err, context.DeadlineExceeded) ||
		loop.ErrClientGone.Error() != "client gone" {
		t.Error(err)
	}
}

// TestWaitOfAnotherThread: a thread that waits by the thread that has started it is told what to
// call.
func TestWaitOfAnotherThread(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) {
			th.Go(func(*loop.Thread) error {
				return th.Await(-1, func(context.Context) error { return nil })
			})
			err := th.Join()
			var p *loop.PanicError
			if !errors.As(err, &p) ||
				!strings.Contains(fmt.Sprint(p.Value), "by the thread that it gets, as in t.Await") {
				t.Errorf("%v", err)
			}
		})
		mustRun(t, l)
	})
}

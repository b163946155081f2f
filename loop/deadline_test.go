package loop_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"

	"github.com/lwango/lwango/loop"
)

// TestDeadlineIsThatOfOthers: programs look for the errors of net and context.
func TestDeadlineIsThatOfOthers(t *testing.T) {
	for _, err := range []error{loop.ErrDeadlineExceeded, loop.ErrNoWorker} {
		for _, target := range []error{
			loop.ErrDeadlineExceeded, os.ErrDeadlineExceeded, context.DeadlineExceeded,
		} {
			if !errors.Is(err, target) {
				t.Errorf("%v is not %T", err, target)
			}
		}
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, context.Canceled) {
			t.Errorf("%v is no net.Error of a timeout", err)
		}
	}
}

package reverseproxy_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestFailed: what speaks against an upstream, before the head of its answer. A client that takes
// no more, or nothing in time, does not.
func TestFailed(t *testing.T) {
	for _, tt := range []struct {
		err           error
		silent, heard bool
	}{
		{upstream.ErrCut, true, true},
		{loop.ErrDeadlineExceeded, true, true},
		{errors.New("malformed"), false, true},
		{fmt.Errorf("%w: %w", reverseproxy.ErrClient, loop.ErrDeadlineExceeded), false, false},
		{fmt.Errorf("%w: %w", reverseproxy.ErrClient, os.ErrDeadlineExceeded), false, false},
		{reverseproxy.BodyError(loop.ErrDeadlineExceeded), false, false},
		{loop.ErrClientGone, false, false},
	} {
		if silent, heard := reverseproxy.Failed(false, tt.err), reverseproxy.Failed(true,
			tt.err); silent != tt.silent || heard != tt.heard {
			t.Errorf("%v: %v %v", tt.err, silent, heard)
		}
	}
}

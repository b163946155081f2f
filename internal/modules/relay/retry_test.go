package relay_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/lwango/lwango/internal/modules/relay"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestFailed: what speaks against an upstream, before the head of its answer. A client that takes no
// more, or nothing in time, does not.
func TestFailed(t *testing.T) {
	for _, tt := range []struct {
		err           error
		silent, heard bool
	}{
		{upstream.ErrCut, true, true},
		{loop.ErrDeadlineExceeded, true, true},
		{errors.New("malformed"), false, true},
		{fmt.Errorf("%w: %w", relay.ErrClient, loop.ErrDeadlineExceeded), false, false},
		{fmt.Errorf("%w: %w", relay.ErrClient, os.ErrDeadlineExceeded), false, false},
		{relay.BodyError(loop.ErrDeadlineExceeded), false, false},
		{loop.ErrClientGone, false, false},
	} {
		if silent, heard := relay.Failed(false, tt.err), relay.Failed(true, tt.err); silent != tt.silent || heard != tt.heard {
			t.Errorf("%v: %v %v", tt.err, silent, heard)
		}
	}
}

package conn

import (
	"testing"
	"unsafe"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
)

// TestSizeOfLaterLine: a line of the access log that waits for the end of a connection is small.
func TestSizeOfLaterLine(t *testing.T) {
	const most = 192 // a size class of the allocator
	if n := unsafe.Sizeof(laterLine{}); n > most {
		t.Errorf("a laterLine has %d bytes, want %d at most", n, most)
	}
}

// TestSizeOfIdle: what was handed on, or is kept open, is these records while it is idle. The sizes
// are classes of the allocator.
func TestSizeOfIdle(t *testing.T) {
	ci.Without(t, invariants.Enabled, "records have an owner")
	for _, row := range []struct {
		what    string
		n, most uintptr
	}{
		{"an h2stream", unsafe.Sizeof(h2stream{}), 384},
		{"an h2link", unsafe.Sizeof(h2link{}), 128},
		{"a handed", unsafe.Sizeof(handed{}), 80},
		{"a handed2", unsafe.Sizeof(handed2{}), 80},
		{"a tail1", unsafe.Sizeof(tail1{}), 96},
		{"a tail2", unsafe.Sizeof(tail2{}), 96},
	} {
		if row.n > row.most {
			t.Errorf("%s has %d bytes, want %d at most", row.what, row.n, row.most)
		}
	}
}

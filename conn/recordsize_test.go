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
		{"an streamConn", unsafe.Sizeof(streamConn{}), 128},
		{"an h1Hijacked", unsafe.Sizeof(h1Hijacked{}), 80},
		{"an h2Hijacked", unsafe.Sizeof(h2Hijacked{}), 80},
		{"an h1KeptOpen", unsafe.Sizeof(h1KeptOpen{}), 96},
		{"an h2KeptOpen", unsafe.Sizeof(h2KeptOpen{}), 96},
	} {
		if row.n > row.most {
			t.Errorf("%s has %d bytes, want %d at most", row.what, row.n, row.most)
		}
	}
}

package conn

import (
	"testing"
	"unsafe"
)

// TestSizeOfLaterLine: a line of the access log that waits for the end of a connection is small.
func TestSizeOfLaterLine(t *testing.T) {
	const most = 192 // a size class of the allocator
	if n := unsafe.Sizeof(laterLine{}); n > most {
		t.Errorf("a laterLine has %d bytes, want %d at most", n, most)
	}
}

// TestSizeOfStream: an idle stream of HTTP/2 that was handed on is these records.
func TestSizeOfStream(t *testing.T) {
	for _, row := range []struct {
		what    string
		n, most uintptr
	}{
		{"an h2stream", unsafe.Sizeof(h2stream{}), 384},
		{"an h2link", unsafe.Sizeof(h2link{}), 128},
		{"a handed2", unsafe.Sizeof(handed2{}), 112},
		{"a tail2", unsafe.Sizeof(tail2{}), 128},
	} {
		if row.n > row.most {
			t.Errorf("%s has %d bytes, want %d at most", row.what, row.n, row.most)
		}
	}
}

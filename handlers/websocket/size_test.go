package websocket

import (
	"testing"
	"unsafe"
)

// TestSizeOfConn: an idle connection is this record, and holds no buffer.
func TestSizeOfConn(t *testing.T) {
	const most = 176 // a size class of the allocator
	if n := unsafe.Sizeof(Conn{}); n > most {
		t.Errorf("a Conn has %d bytes, want %d at most", n, most)
	}
}

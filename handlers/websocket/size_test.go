package websocket

import (
	"testing"
	"unsafe"
)

// TestSizeOfConn: an idle connection under Serve is this record, and holds no buffer.
func TestSizeOfConn(t *testing.T) {
	const most = 80 // a size class of the allocator
	if n := unsafe.Sizeof(Conn{}); n > most {
		t.Errorf("a Conn has %d bytes, want %d at most", n, most)
	}
}

package http2client

import "github.com/lwango/lwango/internal/http2"

// What servers send before it is read is held in memory, up to the window of each stream. The window
// of the connection is so large that no stream, whose reader does not read, stops another one. A window
// that a fast reader has found too small doubles; what all of them have grown by is bounded.
const (
	streamWindow = 256 << 10
	maxWindow    = 4 << 20
	connWindow   = 1 << 30
)

// growth is for the process.
var growth http2.Growth

// consumed gives the server credit for n bytes that were read.
func (st *Stream) consumed(n int) {
	if st.answered || !st.IsOpen() {
		return
	}
	more := st.flow.Return(int64(n), 0)
	if more == 0 {
		return
	}
	if size := st.flow.Size; st.in.Len() == 0 && size < maxWindow && growth.Take(size) {
		more += st.flow.Grow(size)
	}
	st.s.Announce(st.ID, more)
	st.s.wake()
}

package http2client

import "github.com/lwango/lwango/internal/wire/http2"

// What servers send before it is read is held in memory, up to the window of each stream. That is
// 64 KiB at first, so that ten thousand answers whose readers stand still take 640 MB. A window
// that a fast reader has found too small doubles, as fast as a connection of TCP gets going; what
// all of them have grown by is bounded. The window of the connection is so large that no stream,
// whose reader does not read, stops another one.
const (
	streamWindow = 64 << 10
	maxWindow    = 4 << 20
	connWindow   = 1 << 30
)

// windows is for the process.
var windows http2.WindowBudget

// widen opens the stream's window by the n bytes that were read, or more (RFC 9113 section 5.2).
func (st *Stream) widen(n int) {
	if st.complete || !st.IsOpen() {
		return
	}
	more := st.flow.Return(int64(n), 0)
	if more == 0 {
		return
	}
	step := st.flow.Size
	if step == streamWindow {
		step *= 3 // the first time it is not worth a round trip to find out
	}
	if st.in.Len() == 0 && st.flow.Size < maxWindow && windows.Take(step) {
		more += st.flow.Grow(step)
	}
	st.s.SendWindowUpdate(st.ID, more)
	st.s.wake()
}

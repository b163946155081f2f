package http2client

import (
	"sync/atomic"

	"github.com/lwango/lwango/internal/http2"
)

// What servers send before it is read is held in memory, up to the window of each stream. The window
// of the connection is so large that no stream, whose reader does not read, stops another one. A window
// that a fast reader has found too small doubles; what all of them have grown by is bounded.
const (
	streamWindow  = 256 << 10
	maxWindow     = 4 << 20
	connWindow    = 1 << 30
	windowsGrowth = 64 << 20 // of the process
)

var growth atomic.Int64

// grow takes n bytes if that is no more than a quarter of what is left, and reports whether it has.
func grow(n int64) bool {
	for {
		taken := growth.Load()
		if n > (windowsGrowth-taken)/4 {
			return false
		}
		if growth.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// announce tells the server that it may send n bytes more.
func (s *Session) announce(id uint32, n int64) {
	s.gather()
	s.out = http2.AppendWindowUpdate(s.out, id, uint32(n))
	s.wake()
}

// came counts content on the connection, and returns the credit for it: what is held is bounded by the
// streams' windows.
func (s *Session) came(n int64) http2.Code {
	if s.credit -= n; s.credit < 0 {
		return http2.FlowControlError
	}
	if s.returned += n; s.returned >= connWindow/4 {
		s.announce(0, s.returned)
		s.credit += s.returned
		s.returned = 0
	}
	return http2.NoError
}

// consumed gives the server credit for n bytes that were read.
func (st *Stream) consumed(n int) {
	st.returned += int64(n)
	if st.returned < st.ownWindow/2 || st.answered || st.at < 0 {
		return
	}
	more := st.returned
	if len(st.buf) == st.r && st.ownWindow < maxWindow && grow(st.ownWindow) {
		more += st.ownWindow
		st.ownWindow *= 2
	}
	st.credit += more
	st.returned = 0
	st.s.announce(st.id, more)
}

package conn

import (
	"sync/atomic"

	"github.com/lwango/lwango/internal/http2"
)

// What clients may send before a handler has read it is held in memory, up to the window of each
// connection. It begins with the 64 KiB that the protocol gives (RFC 9113 section 6.9.2), and grows
// as far as the client's line is fast and long: a PING measures what arrives within a round trip.
// What all windows of a server have grown by is bounded, so that clients which let their uploads
// stand still cost no more than that and 64 KiB for each connection.
const (
	ownWindow     = 256 << 10 // of a stream at first: its connection's is what counts
	firstGrowth   = 256 << 10 // of a connection, when its first upload begins
	maxWindow     = 16 << 20  // of a connection
	windowsGrowth = 64 << 20  // of all connections of a server together
)

// growth is by how much the windows of a server's connections have grown. Any goroutine may use it.
type growth struct{ taken atomic.Int64 }

// take takes n bytes if that is no more than a quarter of what is left, so that a few fast clients
// leave some for others. It reports whether it has.
func (g *growth) take(n int64) bool {
	for {
		taken := g.taken.Load()
		if n > (windowsGrowth-taken)/4 {
			return false
		}
		if g.taken.CompareAndSwap(taken, taken+n) {
			return true
		}
	}
}

// grow makes the connection's window larger by n bytes if the server has as many, and returns by how
// much.
func (s *session) grow(n int64) int64 {
	n = min(n, maxWindow-s.ownWindow)
	if n <= 0 || !s.server().windows.take(n) {
		return 0
	}
	s.ownWindow += n
	return n
}

// giveBack gives back what the window has grown by, and counts the session no more. The client sends
// nothing that is kept.
func (s *session) giveBack() {
	if s.flags&over == 0 {
		s.flags |= over
		s.server().windows.taken.Add(http2.Window - s.ownWindow)
		s.port.tally.Sessions--
	}
}

// uploads is called when an upload begins.
func (s *session) uploads() {
	if s.ownWindow == http2.Window {
		s.credit += s.announce(0, s.grow(firstGrowth))
	}
}

// probeData is what a PING says whose answer ends a measurement.
const probeData = "lwango\x00w"

// probe begins to measure how much the client sends within a round trip. The kernel's round trips
// would do if no proxy for TCP could stand between.
func (s *session) probe() {
	if !s.probing && s.ownWindow < maxWindow {
		s.probing, s.probed = true, 0
		s.out = append(http2.AppendHeader(s.out, http2.Ping, 0, 0, len(probeData)), probeData...)
	}
}

// measured is called when the client has answered a PING. If its window has let it send no more, the
// window doubles.
func (s *session) measured(data []byte) {
	if !s.probing || string(data) != probeData {
		return
	}
	s.probing = false
	if s.probed < s.ownWindow/3 { // credit is given by halves, so that much may be all it could send
		return
	}
	s.credit += s.announce(0, s.grow(s.ownWindow))
	for _, st := range s.streams {
		st.consumed(0)
	}
}

// announce tells the client that it may send n bytes more, and returns n.
func (s *session) announce(id uint32, n int64) int64 {
	if n > 0 {
		s.out = http2.AppendWindowUpdate(s.out, id, uint32(n))
		s.wake()
	}
	return n
}

// unread returns n bytes of content to the client's credit on the connection.
func (s *session) unread(n int) {
	if s.returned += int64(n); s.returned >= s.ownWindow/2 && s.err == nil {
		s.credit += s.announce(0, s.returned)
		s.returned = 0
		s.probe()
	}
}

// consumed gives the client credit for what was read. The window of a stream follows that of its
// connection.
func (st *h2stream) consumed(n int) {
	s, b := st.s, &st.body
	s.unread(n)
	b.returned += int64(n)
	more := max(s.ownWindow-b.window, 0)
	if b.returned+more < b.window/2 || b.ended || s.err != nil || st.err != nil {
		return
	}
	b.window += more
	b.credit += s.announce(st.id, b.returned+more)
	b.returned = 0
}

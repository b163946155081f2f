package conn

import "github.com/lwango/lwango/internal/http2"

// What clients may send before a handler has read it is held in memory, up to the window of each
// connection. It begins with the 64 KiB that the protocol gives (RFC 9113 section 6.9.2), and grows
// as far as the client's line is fast and long: a PING measures what arrives within a round trip.
// What all windows of a server have grown by is bounded, so that clients which let their uploads
// stand still cost no more than that and 64 KiB for each connection.
const (
	ownWindow   = 256 << 10 // of a stream at first: its connection's is what counts
	firstGrowth = 256 << 10 // of a connection, when its first upload begins
	maxWindow   = 16 << 20  // of a connection
)

// grow makes the connection's window larger by n bytes if the server has as many, and says so to the
// client.
func (s *session) grow(n int64) {
	n = min(n, maxWindow-s.Inflow.Size)
	if n > 0 && s.server().windows.Take(n) {
		s.announce(0, s.Inflow.Grow(n))
	}
}

// giveBack gives back what the window has grown by, and counts the session no more. The client sends
// nothing that is kept.
func (s *session) giveBack() {
	if s.flags&over == 0 {
		s.flags |= over
		s.server().windows.Give(s.Inflow.Size - http2.Window)
		s.port.tally.Sessions--
	}
}

// uploads is called when an upload begins.
func (s *session) uploads() {
	if s.Inflow.Size == http2.Window {
		s.grow(firstGrowth)
	}
}

// probeData is what a PING says whose answer ends a measurement.
const probeData = "lwango\x00w"

// probe begins to measure how much the client sends within a round trip. The kernel's round trips
// would do if no proxy for TCP could stand between.
func (s *session) probe() {
	if !s.probing && s.Inflow.Size < maxWindow {
		s.probing, s.probed = true, 0
		s.Ping(0, probeData)
	}
}

// measured is called when the client has answered a PING. If its window has let it send no more, the
// window doubles.
func (s *session) measured(data []byte) {
	if !s.probing || string(data) != probeData {
		return
	}
	s.probing = false
	if s.probed < s.Inflow.Size/3 { // credit is given by halves, so that much may be all it could send
		return
	}
	s.grow(s.Inflow.Size)
	for _, sender := range s.Open {
		streamOf(sender).consumed(0)
	}
}

// announce tells the client that it may send n bytes more.
func (s *session) announce(id uint32, n int64) {
	if n > 0 {
		s.Announce(id, n)
		s.wake()
	}
}

// unread returns n bytes of content to the client's credit on the connection.
func (s *session) unread(n int) {
	if more := s.Inflow.Return(int64(n), 0); more > 0 && s.err == nil {
		s.announce(0, more)
		s.probe()
	}
}

// consumed gives the client credit for what was read. The window of a stream follows that of its
// connection.
func (st *h2stream) consumed(n int) {
	s, b := st.s, &st.body
	s.unread(n)
	if !b.ended && s.err == nil && st.err == nil {
		s.announce(st.ID, b.flow.Return(int64(n), max(s.Inflow.Size-b.flow.Size, 0)))
	}
}

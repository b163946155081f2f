package conn

import "github.com/lwango/lwango/internal/wire/http2"

// What clients may send before a handler has read it is held in memory, up to the window of each
// connection. It begins with the 64 KiB that the protocol gives (RFC 9113 section 6.9.2), and grows
// as far as the client's line is fast and long: a PING measures what arrives within a round trip.
// What all windows of a server have grown by is bounded, so that clients which let their uploads
// stand still cost no more than that and 64 KiB for each connection.
//
// A stream's window is 64 KiB until something was read of it, and then as large as its
// connection's. An upload that nobody reads must not hold up others of the connection. So once it
// has filled half of the first 64 KiB, the connection's window grows by what is not read of all
// uploads, from the same bytes of the server, and becomes smaller as that is read.
const (
	ownWindow   = http2.DefaultWindow // of a stream at first
	firstGrowth = 256 << 10           // of a connection, when its first upload begins
	maxWindow   = 16 << 20            // of a connection
	lowCredit   = ownWindow / 2
)

// ownSize is how large the connection's window is without its extension.
func (s *session) ownSize() int64 { return s.Inflow.Size - s.extension }

// grow makes the connection's window larger by n bytes if the server has as many, and says so to
// the client.
func (s *session) grow(n int64) {
	n = min(n, maxWindow-s.ownSize())
	if n > 0 && s.server().windows.Take(n) {
		s.announce(0, s.Inflow.Grow(n))
	}
}

// extendWindow lets the client send on besides what is not read, if little of the connection's
// window is left and there is more than one stream.
func (s *session) extendWindow() {
	n := s.unread - s.extension
	if s.Inflow.Window >= lowCredit || n <= 0 || len(s.Open) < 2 {
		return
	}
	if s.server().windows.TakeMore(s.extension, n) {
		s.extension += n
		s.announce(0, s.Inflow.Grow(n))
	}
}

// returnWindow gives back what the window has grown by, and counts the session no more. The client
// sends nothing that is kept.
func (s *session) returnWindow() {
	if s.flags&windowReturned == 0 {
		s.flags |= windowReturned
		s.server().windows.Give(s.Inflow.Size - http2.DefaultWindow)
		s.port.stats.Sessions--
		if s.port.sessions--; s.port.sessions == 0 {
			s.port.trimStreams()
		}
	}
}

// uploads is called when an upload begins, whose end is near or not.
func (s *session) uploads(long bool) {
	if long && s.ownSize() == http2.DefaultWindow {
		s.grow(firstGrowth)
	}
	s.extendWindow()
}

// probeData is what a PING says whose answer ends a measurement.
const probeData = "lwango\x00w"

// probe begins to measure how much the client sends within a round trip. The kernel's round trips
// would do if no proxy for TCP could stand between.
func (s *session) probe() {
	if !s.probing && s.ownSize() < maxWindow {
		s.probing, s.probed = true, 0
		s.Ping(0, probeData)
	}
}

// measured is called when the client has answered a PING. If its window has let it send no more,
// the window doubles.
func (s *session) measured(data []byte) {
	if !s.probing || string(data) != probeData {
		return
	}
	s.probing = false
	if s.probed < s.ownSize()/3 { // credit is given by halves, so that much may be all it could send
		return
	}
	s.grow(s.ownSize())
	for _, sender := range s.Open {
		streamOf(sender).consumed(0)
	}
}

// announce tells the client that it may send n bytes more.
func (s *session) announce(id uint32, n int64) {
	if n > 0 {
		s.SendWindowUpdate(id, n)
		if id == 0 && s.Inflow.Window == n { // none was left
			s.creditChanges()
		}
		s.wake()
	}
}

// creditChanges tells the streams that the client has got credit again, or has used it up.
func (s *session) creditChanges() {
	for _, sender := range s.Open {
		streamOf(sender).owesInput()
	}
}

// dropped returns n bytes of content that nobody reads to the client's credit on the connection.
func (s *session) dropped(n int) {
	if more := s.Inflow.Return(int64(n), 0); more > 0 && s.err == nil {
		s.announce(0, more)
		s.probe()
	}
}

// wasRead is dropped for n bytes that streams have held.
func (s *session) wasRead(n int) {
	s.unread -= int64(n)
	if back := s.extension - s.unread; back > 0 && s.flags&windowReturned == 0 {
		s.extension -= back
		s.Inflow.Shrink(back)
		s.server().windows.Give(back)
		n -= int(back)
	}
	s.dropped(n)
}

// consumed gives the client credit for n bytes that were read.
func (st *h2stream) consumed(n int) {
	st.s.wasRead(n)
	st.returnCredit(n)
}

// returnCredit is consumed for the stream's window alone, which follows that of its connection.
func (st *h2stream) returnCredit(n int) {
	s, b := st.s, &st.body
	if !b.ended && s.err == nil && st.err == nil {
		s.announce(st.ID, b.flow.Return(int64(n), max(s.ownSize()-b.flow.Size, 0)))
	}
}

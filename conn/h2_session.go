package conn

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// session is a connection of HTTP/2 (RFC 9113), and the task of its thread. The thread reads
// frames, begins a thread for each stream, and sends what these have gathered, all that a turn of
// the loop has brought in one write. So streams neither read nor write the socket. Between two
// turns the session holds no coroutine, unless the client does not take what it is sent.
type session struct {
	*connection
	set *settings // of the last request

	stream           stream.Conn
	sink             io.Writer     // a sessionStream, or TLS over it
	held             stream.Duplex // of the stream: writes do not wait
	reading, writing stream.Pace

	http2.Wire
	descriptors int        // of its streams, see included
	bridges     int        // goroutines of handlers; the lock of the server's bridges is held
	active      int        // streams whose threads have not ended, closed ones included
	begun       uint8      // since streams have run: see runBegun
	yields      uint8      // since something was sent: see maxYields
	last        uint32     // the highest that the client has opened
	served      uint32     // the same, when GOAWAY was sent
	recent      [16]uint32 // streams that were closed last
	closed      uint       // how many

	closedStreams []closedStream // of streams that are closed and whose clients may still send

	early      *[8]earlyRank // of streams that may come, those said last,
	earlyCount int           // and of how many was something said

	unread    int64 // content that streams hold,
	extension int64 // and by how much the window has grown for it, see extendWindow

	probed  int64 // how much has come since the server's PING,
	probing bool  // which is not answered yet

	pinged   time.Duration // when the client's last PING has come; 0: none has
	partFrom time.Duration // since when a frame or a field block has been under way; 0: none is
	idleFrom time.Duration // since when there have been no streams
	seen     int64         // how many bytes had come at the last count, see countPartial

	flags   sessionFlags
	err     error     // why nothing can be read or sent any more
	share   *share    // pace of streams that wait together; nil: none has
	fullLog AccessLog // has too many lines of this connection; nil: none has
}

type sessionFlags uint8

const (
	prefaceRead     sessionFlags = 1 << iota // the client's preface has come
	leaving                                  // GOAWAY was sent: no new streams
	failing                                  // because of an error: nothing more is read
	windowReturned                           // returnWindow was called
	closeNotifySent                          // sendCloseNotify was called
	// the peer is a trusted proxy, whose streams are many clients'
	ofProxy
	recordRead // crypto/tls has no more of the last record
)

// Limits of a session.
const (
	// runBegun is after how many requests these run before the next are read: streams are used
	// again while the processor's caches have them. What they answer still goes out together.
	runBegun = 8

	// maxYields is how often in a row they run before what they have answered is sent. Otherwise a
	// client whose requests come one by one, as quickly as they are answered, would wait for 32 KiB.
	maxYields = 16
)

// newSession returns a session for the connection, of which that was read so far.
func (c *connection) newSession(set *settings, read []byte) *session {
	s := &session{connection: c, set: set, Wire: http2.NewWire()}
	s.idleFrom = max(c.Loop().Layer().Clock(c.Loop().Time()), 1)
	s.Prepend(read)
	return s
}

// begin makes s serve its connection, which has no turn any more.
func (s *session) begin() {
	c := s.connection
	if c.port.proxies(s.set).trusts(c.remote) {
		s.flags |= ofProxy
	}
	s.stream.Own(&c.Thread, c.remote.addrPort())
	s.stream.Duplex(&s.held)
	setPace(&s.writing, s.set, s.set.WriteTimeout)
	s.stream.SetPace(&s.reading, &s.writing)
	to := sessionStream{&s.stream}
	if s.sink = to; c.tls != nil {
		s.sink = c.tls
		t := c.transport()
		t.attach(&s.stream)
		t.Conn = to
	}
	s.Gather()
	s.Out = http2.AppendHeader(s.Out, http2.SettingsFrame, 0, 0, 5*6)
	s.Out = http2.AppendSetting(s.Out, http2.NoRFC7540Priorities, 1)
	s.Out = http2.AppendSetting(s.Out, http2.EnableConnectProtocol, 1)
	s.Out = http2.AppendSetting(s.Out, http2.MaxConcurrentStreams, uint32(s.set.MaxStreams))
	s.Out = http2.AppendSetting(s.Out, http2.InitialWindowSize, ownWindow)
	s.Out = http2.AppendSetting(s.Out, http2.MaxHeaderListSize, uint32(s.set.MaxHeaderSize))
	c.Thread.Layer().SetTask(s)
	c.state |= served
	c.port.stats.Sessions++
	c.port.sessions++
}

// sessionStream is the stream of a session, which puts off what it writes if that is little: the
// sessions of a turn of the loop send together, see stream.Conn.PutOff.
type sessionStream struct{ *stream.Conn }

// Write implements net.Conn.
func (o sessionStream) Write(p []byte) (int, error) {
	if len(p) > 0 && o.PutOff(p) {
		return len(p), nil
	}
	return o.Conn.Write(p)
}

// awaitsRequests returns the connection that a thread's task serves; nil: the task does something
// else, or a handler has taken the connection over.
func awaitsRequests(task loop.Task) *connection {
	switch task := task.(type) {
	case *connection:
		return task
	case *session:
		return task.connection
	}
	return nil
}

// Run is called by the loop when something has come, or a stream has gathered something.
func (s *session) Run(t *loop.Thread) coro.Code {
	s.stream.ResetBudget()
	for {
		if s.fullLog != nil { // what the client asks next is left unread
			if err := s.awaitLog(s.fullLog, s.send); err != nil {
				s.fail(err)
			}
			s.fullLog = nil
		}
		if s.err == nil && s.flags&failing == 0 {
			s.receive()
		}
		if t.Loop().Stopping() || s.set.Leaving || s.outdated() {
			s.goAway(http2.NoError)
		}
		more := s.begun == runBegun // may have come
		if s.begun > 0 {
			s.begun = 0
			if s.yields++; s.yields <= maxYields && s.err == nil &&
				(s.unsent() > 0 || len(s.Out) < http2.MaxOutput/2) {
				return coro.Yield
			}
		}
		s.yields = 0
		pressed := s.mustFlush()
		sent := s.send()
		if s.keepsWaiting(); sent == nil && (more || pressed && !s.mustFlush()) {
			continue
		}
		switch {
		case s.err != nil:
			s.abandon()
			if s.active > 0 {
				return s.awaitHandlers()
			}
			return coro.Abort
		case s.unsent() > 0:
			if err := s.held.Await(-1, s.flags&failing == 0 && !s.mustFlush()); err != nil {
				s.fail(err)
			} else if _, err := s.held.SendHeld(); err != nil {
				s.fail(err)
			}
		case s.flags&failing != 0, s.flags&leaving != 0 && s.active == 0:
			s.abandon()
			if s.active > 0 {
				return s.awaitHandlers()
			}
			if s.sendCloseNotify() {
				continue // what the socket has no room for is held
			}
			return s.close()
		default:
			before := len(s.Out)
			if draining := s.expire(); len(s.Out) == before {
				return s.rest(draining)
			}
		}
	}
}

// awaitHandlers keeps the connection for the handlers of streams that have no client any more. They
// go on, and count.
func (s *session) awaitHandlers() coro.Code {
	s.connection.Thread.Layer().UnmarkIdle()
	s.connection.Thread.Layer().IdleTimeout(-1)
	return coro.Suspend
}

// partial reports whether a part of the preface, of a frame, of a field block or of a TLS record
// has come.
func (s *session) partial() bool {
	return !s.SettingsReceived || s.Block.Stream != 0 || len(s.Unparsed()) > 0 ||
		s.tls != nil && heldTLS(s.tls)
}

// restOfPart returns how long the rest of what has come in part may take, however its bytes come.
func (s *session) restOfPart(now time.Duration) time.Duration {
	limit := s.set.HeaderTimeout
	if have := s.Unparsed(); s.Block.Stream == 0 && len(have) >= http2.FrameHeaderLen &&
		len(s.closedStreams) > 0 && http2.ParseHeader(have).Type == http2.Data {
		limit = max(limit, s.set.BodyTimeout) // content that is dropped
	}
	return max(limit-(now-s.partFrom), time.Millisecond)
}

// rest leaves the session without a coroutine until something comes. draining is how long it is
// until the next closed stream is stopped or forgotten; negative: there is none.
func (s *session) rest(draining time.Duration) coro.Code {
	t := &s.connection.Thread
	lp := t.Loop()
	now := max(lp.Layer().Clock(lp.Time()), 1)
	limit := s.set.KeepAliveTimeout
	if s.active > 0 {
		limit = draining // they have limits of their own
		t.Layer().UnmarkIdle()
	} else {
		// A client that has no request under way is idle, whatever else it sends.
		t.Layer().MarkIdle(lp.Time().Add(s.idleFrom-now), false)
		if draining >= 0 {
			limit = draining
		}
		s.share = nil
	}
	if !s.partial() {
		s.partFrom = 0
	} else {
		if s.partFrom == 0 {
			s.partFrom = now
		}
		if s.active == 0 || s.Block.Stream != 0 { // else it is a stream's, or does no harm
			limit = shorter(s.restOfPart(now), draining)
		}
	}
	s.ReleaseBuffers()
	if s.tls != nil && s.active == 0 {
		slimTLS(s.tls, heldBuffer)
	}
	t.Layer().IdleTimeout(limit)
	return coro.WantRead
}

// countPartial is called when nothing more has come. What has come of a frame, or of a TLS record,
// counts as moved for the streams that wait for content: a slow client may send it piece by piece.
func (s *session) countPartial() {
	n := int(s.reading.Bytes() - s.seen)
	s.seen = s.reading.Bytes()
	if s.tls == nil || !heldTLS(s.tls) {
		n = min(n, len(s.Unparsed()))
	}
	if n == 0 || s.active == 0 {
		return
	}
	for _, sender := range s.Open {
		if st := streamOf(sender); st.wantsInput && st.conn == nil {
			k := min(n, http2.DefaultFrameSize-st.early)
			st.early += k
			st.in.Moved(s.Loop(), k)
		}
	}
}

// wake lets the session run behind the threads of this turn. It is for its streams.
func (s *session) wake() { s.connection.Thread.Layer().WakeThisTurn() }

// fail ends the session: the client is gone, or too slow.
func (s *session) fail(err error) {
	if s.err == nil {
		s.err = err
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.resetOnClose()
		}
		if s.active > 0 && errors.Is(err, stream.ErrTooSlow) {
			s.port.server.logSlow("conn: the client is too slow, its connection of HTTP/2 ends early",
				&s.writing, false, "requests", s.active, "remote", s.remote.addrPort())
		}
	}
}

// abandon tells the streams that the client has left.
func (s *session) abandon() {
	for len(s.Open) > 0 {
		st := streamOf(s.Open[0])
		s.Remove(&st.Sender)
		st.left(loop.ErrClientGone)
	}
}

// sendCloseNotify tells a client of TLS that no more will be sent (RFC 8446 section 6.1), and
// reports whether it has done so just now. Nothing can be written behind it, so nothing more is
// read.
func (s *session) sendCloseNotify() bool {
	c := s.connection
	if c.tls == nil || s.flags&closeNotifySent != 0 {
		return false
	}
	s.flags |= closeNotifySent | failing
	if err := c.tls.CloseWrite(); err != nil {
		s.fail(err)
	}
	return true
}

// close ends the connection in order: the client gets what was sent.
func (s *session) close() coro.Code {
	c := s.connection
	s.returnWindow()
	if c.Thread.Layer().Descriptor().CloseWrite() != nil {
		return coro.Abort
	}
	return c.linger().Run(&c.Thread)
}

// goAway says that no new stream will be served, and why. After an error nothing more is read.
func (s *session) goAway(code http2.Code) {
	if s.flags&leaving != 0 && code == http2.NoError || s.flags&failing != 0 {
		return
	}
	if s.flags&leaving == 0 {
		s.flags, s.served = s.flags|leaving, s.last // it must not rise any more (section 6.8)
	}
	if code != http2.NoError {
		s.flags |= failing
		s.set.Logger.Debug("conn: http/2 connection ended", "remote", s.remote.addrPort(), "error", code)
	}
	s.Gather()
	s.Out = http2.AppendGoAway(s.Out, s.served, code, "")
}

// Flush is an optional method of a loop.Task, for what is never held.
func (s *session) Flush() {}

// ClientGone is called by the loop when the client sends no more. What it has sent is read first.
func (s *session) ClientGone() {}

// BeforeEnd is called by the loop before it closes the connection, which is idle, or whose streams
// a stop has killed: then it sends what these have left.
func (s *session) BeforeEnd() {
	if s.err != nil || s.unsent() > 0 {
		return // the client is gone, or its socket has no room
	}
	c := s.connection
	if _, errno := c.Thread.Layer().Descriptor().Send(nil, false); errno != 0 { // what was put off
		return
	}
	s.goAway(http2.NoError)
	s.Fill()
	if c.tls == nil {
		_, _ = sysio.SendOnly{FD: c.FD()}.Write(s.Out)
		return
	}
	t := c.transport()
	t.Conn = sysio.SendOnly{FD: c.FD()}
	_, _ = c.tls.Write(s.Out)
	_ = c.tls.CloseWrite()
	t.Conn = nil
}

// Describe says what the session does, for a dump of threads.
func (s *session) Describe() string {
	d := "client " + s.remote.addrPort().String() + ", HTTP/2"
	if s.active == 0 {
		return d + ", idle"
	}
	return d
}

// Ended is called by the loop when the thread has ended.
func (s *session) Ended() {
	s.fail(loop.ErrClientGone)
	s.abandon()
	s.returnWindow()
	s.connection.Ended()
}

// receive reads what has come, and acts on it.
func (s *session) receive() {
	for s.flags&failing == 0 {
		if code := s.frames(); code != http2.NoError { // what came with the preface, or behind a frame
			s.goAway(code)
			return
		}
		if s.begun == runBegun || s.mustFlush() {
			return
		}
		n, err := s.read(s.ReadBuffer())
		s.Received(n)
		switch {
		case err == nil:
		case err == stream.ErrWouldBlock:
			s.countPartial()
			return
		default:
			s.fail(err)
			return
		}
	}
}

// mustFlush reports that the client has to take something before more of it is read.
func (s *session) mustFlush() bool { return s.MustFlush(s.unsent()) }

func (s *session) read(p []byte) (int, error) {
	if s.tls == nil {
		return s.stream.TryRead(p)
	}
	if s.flags&recordRead != 0 && !s.stream.Unread() && !s.Loop().Stopping() && readAllTLS(s.tls) {
		return 0, stream.ErrWouldBlock // as crypto/tls would find out
	}
	n, err := s.tls.Read(p)
	if s.flags |= recordRead; n == len(p) || n > 0 && err != nil { // the end of TLS came along
		s.flags &^= recordRead
	}
	return n, readTLSError(n, err)
}

// unsent returns how many bytes of what was sent the socket has had no room for.
func (s *session) unsent() int { return s.held.Held() + s.stream.Remainder() }

// transmit sends what was gathered and what streams have ready, as long as the client takes it.
func (s *session) transmit() {
	for s.err == nil && s.unsent() == 0 {
		any, err := s.Send(s.sink)
		if err != nil {
			s.fail(err)
		}
		if !any {
			return
		}
	}
}

// send sends what is held, and then transmits, as far as the client takes it.
func (s *session) send() error {
	if s.unsent() > 0 {
		if _, err := s.held.SendHeld(); err != nil {
			s.fail(err)
		}
	}
	s.transmit()
	return s.err
}

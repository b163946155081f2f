package http2client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Session is a connection of HTTP/2 to a server, and the task of its thread. Only its loop's
// threads may use it. Between two turns of the loop it holds no coroutine, unless the server does
// not take what it is sent.
type Session struct {
	thread loop.Thread
	stream stream.Conn
	sink   io.Writer     // it, or TLS over it
	held   stream.Duplex // of the stream: writes do not wait
	pace   stream.Pace   // of what the server takes
	tls    *tls.Conn     // over the stream; nil: none
	carry  func(net.Conn)
	ended  func(*Session) // see Start

	http2.Wire
	next           uint32 // the number of the next stream
	users          int    // streams that were not closed by those who use them
	idle           int    // of these, those that have not begun
	streamLimit    int    // that the server lets be open
	lateContent    int64  // how much content may still come on streams that are closed
	unwrittenHeads int    // of unsent bytes, those of heads of requests, see unwritten

	blockFrom time.Duration // when the field block began that goes on

	ready     loop.Promise[struct{}] // resolved then, rejected if the session ends before
	closing   bool                   // no new streams: the session will end
	gotGoAway bool                   // because the server has said so
	canceled  int                    // requests that were given up, less the answers that have come
	err       error                  // why nothing can be read or sent any more

	liveness
}

// Limits of a session.
const (
	maxCanceled  = 100 // requests given up, more than answers have come
	firstStreams = 1   // that may be open before the server has said how many
	lastStream   = 1<<31 - 1
)

// sendTimeout is for how long the server may take no byte of what is sent.
const sendTimeout = 30 * time.Second

// Start begins a session on the connected socket fd, over which c, if it is not nil, speaks TLS:
// carry says which connection c is over. The session owns fd from then on, and calls ended on its
// loop, once, when it takes no more streams. keep is for how long the connection is used. With an
// error fd is still the caller's. Start is called on l.
func Start(l *loop.Loop, fd int, c *tls.Conn, carry func(net.Conn), keep Lifetime,
	ended func(*Session)) (*Session, error) {
	s := &Session{tls: c, carry: carry, ended: ended, next: 1, streamLimit: firstStreams,
		Wire: http2.NewWire()}
	remote := sysio.PeerAddr(fd)
	if err := l.Attach(&s.thread, fd, s, -1); err != nil {
		return nil, err
	}
	s.thread.Layer().MarkDaemon() // the threads that ask are the work
	s.stream.Own(&s.thread, remote)
	s.stream.Duplex(&s.held)
	s.pace.Idle = sendTimeout
	s.stream.SetPace(nil, &s.pace)
	if s.sink = &s.stream; c != nil {
		s.sink = c
		carry(&s.stream)
	}
	s.limits, s.born = keep, l.Layer().Clock(time.Now()) // and not this turn's time: see Since
	s.lastFrame, s.idleSince = s.born, s.born
	s.Gather()
	s.Out = append(s.Out, http2.Preface...)
	s.Out = http2.AppendHeader(s.Out, http2.SettingsFrame, 0, 0, 2*6)
	s.Out = http2.AppendSetting(s.Out, http2.EnablePush, 0)
	s.Out = http2.AppendSetting(s.Out, http2.InitialWindowSize, streamWindow)
	s.SendWindowUpdate(0, s.Inflow.Grow(connWindow-http2.DefaultWindow))
	s.wake()
	return s, nil
}

// Run is called by the loop when something has come, or a stream has gathered something.
func (s *Session) Run(t *loop.Thread) coro.Code {
	s.stream.ResetBudget()
	for {
		if s.err == nil {
			s.receive()
		}
		pressed := s.mustFlush()
		if s.transmit(); pressed && !s.mustFlush() && s.err == nil {
			continue
		}
		switch {
		case s.err != nil:
			s.failStreams()
			return coro.Abort
		case s.held.Held() > 0:
			if err := s.held.Await(-1, !s.mustFlush()); err != nil {
				s.fail(err)
			} else if _, err := s.held.SendHeld(); err != nil {
				s.fail(err)
			}
		case s.users == 0 && s.finished():
			s.stopStreams()
			s.Gather()
			s.Out = http2.AppendGoAway(s.Out, 0, http2.NoError, "")
			s.transmit()
			if s.tls != nil && s.err == nil {
				_ = s.tls.CloseWrite()
			}
			return coro.Abort
		default:
			s.ReleaseBuffers()
			t.Layer().IdleTimeout(s.idleTimeout())
			return coro.WantRead
		}
	}
}

// wake lets the session run behind the threads of this turn. It is for its streams.
func (s *Session) wake() {
	if s.err == nil {
		s.thread.Layer().WakeThisTurn()
	}
}

// receive reads what has come, and acts on it.
func (s *Session) receive() {
	for s.err == nil {
		if code := s.frames(); code != http2.NoError {
			s.protocolError(code)
			return
		}
		if s.mustFlush() {
			return
		}
		n, err := s.read(s.ReadBuffer())
		s.Received(n)
		switch {
		case err == nil:
		case errors.Is(err, stream.ErrWouldBlock):
			return
		default:
			s.fail(err)
			return
		}
	}
}

// mustFlush reports that the server has to take something before more of it is read.
func (s *Session) mustFlush() bool { return s.MustFlush(s.unwritten()) }

// unwritten returns how much of what was sent the server has not taken, less all heads of requests.
// The server does not make these, and Room bounds them. If they counted, this side would not read
// because it has asked for much, and a server that does not read either until its answers are taken
// would wait for it.
func (s *Session) unwritten() int {
	held := s.held.Held()
	s.unwrittenHeads = min(s.unwrittenHeads, held+len(s.Out))
	return held - s.unwrittenHeads
}

// maxBacklog is how much is gathered in a turn of the loop, of heads of requests.
const maxBacklog = 1 << 20

func (s *Session) read(p []byte) (int, error) {
	if s.tls == nil {
		return s.stream.TryRead(p)
	}
	n, err := s.tls.Read(p)
	if n > 0 {
		return n, nil // the next read returns an error that came with it
	}
	return 0, err
}

// protocolError ends the session because of a mistake of the server.
func (s *Session) protocolError(code http2.Code) {
	s.Gather()
	s.Out = http2.AppendGoAway(s.Out, 0, code, "")
	s.transmit()
	if !s.SettingsReceived {
		s.fail(fmt.Errorf("%w: the upstream does not speak HTTP/2", ErrMalformed))
	}
	s.fail(fmt.Errorf("%w: %w", ErrMalformed, code))
}

// transmit sends what was gathered and what streams have ready, as long as the server takes it.
func (s *Session) transmit() {
	for s.err == nil && s.held.Held() == 0 {
		any, err := s.Send(s.sink)
		if err != nil {
			s.fail(err)
		}
		if !any {
			return
		}
	}
}

// fail ends the session: the server is gone, too slow, or breaks the rules.
func (s *Session) fail(err error) {
	if s.err == nil {
		switch {
		case err == io.EOF:
			// The end of the connection is not that of an answer: only END_STREAM is (RFC 9113 section
			// 8.1). Whoever has io.EOF from a stream's Read takes the content for complete.
			err = io.ErrUnexpectedEOF
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = errSilent // a limit of the connection is none of a request
		}
		s.err = err
		s.ready.Reject(err)
		s.stopStreams()
	}
}

// stopStreams has the session take no more streams.
func (s *Session) stopStreams() {
	if !s.closing {
		s.closing = true
		s.ended(s)
	}
}

// Retire has the session take no more streams, and end with the last one.
func (s *Session) Retire() {
	s.stopStreams()
	s.wake()
}

// failStreams tells the streams that nothing more comes.
func (s *Session) failStreams() {
	for len(s.Open) > 0 {
		st := streamOf(s.Open[0])
		s.Remove(&st.Sender)
		st.fail(s.err)
	}
}

// ClientGone is called by the loop when the server sends no more. What it has sent is read first.
func (s *Session) ClientGone() {}

// BeforeEnd is called by the loop before it closes the connection, which is idle.
func (s *Session) BeforeEnd() {
	w := sysio.SendOnly{FD: s.thread.FD()}
	bye := http2.AppendGoAway(nil, 0, http2.NoError, "")
	if s.tls == nil {
		_, _ = w.Write(bye)
		return
	}
	s.carry(w)
	_, _ = s.tls.Write(bye)
	_ = s.tls.CloseWrite()
}

// Ended is called by the loop when the thread has ended.
func (s *Session) Ended() {
	s.fail(net.ErrClosed)
	s.failStreams()
}

// Describe says what the session does, for a dump of threads.
func (s *Session) Describe() string {
	return fmt.Sprintf("upstream %s, HTTP/2, %d streams", s.stream.RemoteAddr(), s.users)
}

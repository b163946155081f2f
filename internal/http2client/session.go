package http2client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Session is a connection of HTTP/2 to a server, and the body of its thread. Only its loop's threads
// may use it. Between two turns of the loop it holds no coroutine, unless the server does not take what
// it is sent.
type Session struct {
	thread loop.Thread
	stream stream.Stream
	held   stream.Duplex // of the stream: writes do not wait
	pace   stream.Pace   // of what the server takes
	tls    *tls.Conn     // over the stream; nil: none
	carry  func(net.Conn)
	ended  func(*Session) // see Start

	dec     http2.Decoder
	ids     []uint32  // of the streams that are open,
	streams []*Stream // and these
	next    uint32    // the number of the next one
	users   int       // streams that were not closed by those who use them
	idle    int       // of these, those that have not begun
	most    int       // that the server lets be open

	in    []byte // in[r:w] was read and is not used yet; nil: nothing
	r, w  int
	out   []byte // gathered
	spare []byte // for what is gathered next
	reply int    // how much of what was gathered, and not sent, the server's frames have caused
	batch uint   // of output: what stands in out is of this one

	// A field block that goes on in Continuation frames.
	block       []byte
	blockStream uint32 // 0: none is under way
	blockEnds   bool   // the answer ends with it
	blockFrom   time.Duration
	fragments   int

	first, last *Stream // a queue of those with content to be sent, in turn

	window    int64 // how much content the server takes on the connection
	newWindow int64 // how much of a new stream
	frame     int   // the longest frame that it takes
	credit    int64 // how much content the server may send on the connection
	returned  int64 // how much of what has come was not announced yet
	late      int64 // how much content may still come on streams that are closed

	settled  bool                   // the server's first SETTINGS have come
	greeting loop.Promise[struct{}] // resolved then, rejected if the session ends before
	leaving  bool                   // no new streams: the session will end
	goneAway bool                   // because the server has said so
	useless  int                    // frames in a row that were of no use; below 0: so many more are no flood
	minute   int64
	canceled int   // requests that were given up, less the answers that have come
	err      error // why nothing can be read or sent any more

	life
}

// Limits of a session.
const (
	inputSize    = 32 << 10 // a frame and more
	maxOutput    = 64 << 10 // gathered before streams wait
	outputSize   = 96 << 10 // with the last frame, and heads
	maxUseless   = 1000     // frames of no use in a row, within a minute,
	maxUpdates   = 1 << 20  // besides the updates of windows that content gives reason for
	maxCanceled  = 100      // requests given up, more than answers have come
	maxFragments = 64       // frames of one field block, at least
	firstStreams = 1        // that may be open before the server has said how many
	lastStream   = 1<<31 - 1
)

// sendFor is for how long the server may take no byte of what is sent.
const sendFor = 30 * time.Second

// inputs are for sessions that have something to read, outputs for what they send.
var (
	inputs  = sync.Pool{New: func() any { return new([inputSize]byte) }}
	outputs = sync.Pool{New: func() any { return new([outputSize]byte) }}
)

// Start begins a session on the connected socket fd, over which c, if it is not nil, speaks TLS: carry
// says which connection c is over. The session owns fd from then on, and calls ended on its loop, once,
// when it takes no more streams. keep is for how long the connection is used. With an error fd is still
// the caller's. Start is called on l.
func Start(l *loop.Loop, fd int, c *tls.Conn, carry func(net.Conn), keep Life,
	ended func(*Session)) (*Session, error) {
	s := &Session{tls: c, carry: carry, ended: ended, next: 1, most: firstStreams,
		window: http2.Window, newWindow: http2.Window, frame: http2.FrameSize, credit: http2.Window}
	remote := loop.PeerAddr(fd)
	if err := l.Attach(&s.thread, fd, s, -1); err != nil {
		return nil, err
	}
	s.stream.Own(&s.thread, remote)
	s.stream.Duplex(&s.held)
	s.pace.Idle = sendFor
	s.stream.SetPace(nil, &s.pace)
	if c != nil {
		carry(&s.stream)
	}
	s.keep, s.born = keep, l.Clock(time.Now()) // and not this turn's time: see Since
	s.heard, s.free = s.born, s.born
	s.gather()
	s.out = append(s.out, http2.Preface...)
	s.out = http2.AppendHeader(s.out, http2.SettingsFrame, 0, 0, 2*6)
	s.out = http2.AppendSetting(s.out, http2.EnablePush, 0)
	s.out = http2.AppendSetting(s.out, http2.InitialWindowSize, streamWindow)
	s.announce(0, connWindow-s.credit)
	s.credit = connWindow
	s.wake()
	return s, nil
}

// Run is called by the loop when something has come, or a stream has gathered something.
func (s *Session) Run(t *loop.Thread) coro.Code {
	for {
		if s.err == nil {
			s.receive()
		}
		s.transmit()
		switch {
		case s.err != nil:
			s.abandon()
			return coro.Abort
		case s.held.Held() > 0:
			if err := s.held.Await(-1, true); err != nil {
				s.fail(err)
			} else if _, err := s.held.SendHeld(); err != nil {
				s.fail(err)
			}
		case s.users == 0 && s.over():
			s.leave()
			s.out = http2.AppendGoAway(s.out, 0, http2.NoError, "")
			s.transmit()
			if s.tls != nil && s.err == nil {
				_ = s.tls.CloseWrite()
			}
			return coro.Abort
		default:
			s.slim()
			loop.IdleTimeout(t, s.patience())
			return coro.WantRead
		}
	}
}

// slim gives up the memory that a session does not need while nothing comes and nothing is sent.
func (s *Session) slim() {
	if s.r == s.w && s.in != nil {
		if len(s.in) == inputSize {
			inputs.Put((*[inputSize]byte)(s.in))
		}
		s.in, s.r, s.w = nil, 0, 0
	}
	for _, b := range [2]*[]byte{&s.out, &s.spare} {
		if len(*b) > 0 {
			continue // gathered while the last batch was sent
		}
		if cap(*b) == outputSize {
			outputs.Put((*[outputSize]byte)((*b)[:outputSize]))
		}
		*b = nil
	}
}

// wake lets the session run behind the threads of this turn. It is for its streams.
func (s *Session) wake() {
	if s.err == nil {
		loop.Soon(&s.thread)
	}
}

// receive reads what has come, and acts on it.
func (s *Session) receive() {
	for s.err == nil {
		if s.in == nil {
			s.in = inputs.Get().(*[inputSize]byte)[:]
		}
		if s.r > 0 {
			s.w = copy(s.in, s.in[s.r:s.w])
			s.r = 0
		}
		n, err := s.read(s.in[s.w:])
		s.w += n
		switch {
		case err == nil:
		case errors.Is(err, stream.ErrWouldBlock):
			return
		case err == io.EOF:
			s.fail(io.EOF)
			return
		default:
			s.fail(err)
			return
		}
		gathered := len(s.out)
		code := s.frames()
		// What the server makes the client say is bounded, whether the server reads it or not.
		if s.reply += len(s.out) - gathered; code == http2.NoError && s.reply > maxBacklog {
			code = http2.EnhanceYourCalm
		}
		if code != http2.NoError {
			s.breakOff(code)
		}
	}
}

// maxBacklog is how much may be gathered that the server does not take: of heads of requests, and of
// what frames of the server are answered with.
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

// breakOff ends the session because of a mistake of the server.
func (s *Session) breakOff(code http2.Code) {
	s.gather()
	s.out = http2.AppendGoAway(s.out, 0, code, "")
	s.transmit()
	if !s.settled {
		s.fail(fmt.Errorf("%w: the upstream does not speak HTTP/2", ErrMalformed))
	}
	s.fail(fmt.Errorf("%w: %w", ErrMalformed, code))
}

// transmit sends what was gathered and what streams have ready, as long as the server takes it.
func (s *Session) transmit() {
	for s.err == nil && s.held.Held() == 0 {
		s.fill()
		if len(s.out) == 0 {
			s.reply = 0
			return
		}
		out := s.out
		if s.spare == nil {
			s.spare = outputs.Get().(*[outputSize]byte)[:0]
		}
		s.out, s.spare = s.spare[:0], nil // streams go on gathering while this thread lets others run
		s.batch++
		var err error
		if s.tls == nil {
			_, err = s.stream.Send(out, nil, false)
		} else {
			_, err = s.tls.Write(out)
		}
		s.spare = out[:0]
		if err != nil {
			s.fail(err)
		}
	}
}

// fail ends the session: the server is gone, too slow, or breaks the rules.
func (s *Session) fail(err error) {
	if s.err == nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = errSilent // a limit of the connection is none of a request
		}
		s.err = err
		s.greeting.Reject(err)
		s.leave()
	}
}

// leave has the session take no more streams.
func (s *Session) leave() {
	if !s.leaving {
		s.leaving = true
		s.ended(s)
	}
}

// Retire has the session take no more streams, and end with the last one.
func (s *Session) Retire() {
	s.leave()
	s.wake()
}

// abandon tells the streams that nothing more comes.
func (s *Session) abandon() {
	for len(s.streams) > 0 {
		st := s.streams[0]
		s.remove(st)
		st.fail(s.err)
	}
}

// Left is called by the loop when the server sends no more. What it has sent is read first.
func (s *Session) Left() {}

// Ending is called by the loop before it closes the connection, which is idle.
func (s *Session) Ending() {
	w := lastWords{fd: s.thread.FD()}
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
	s.abandon()
}

// Describe says what the session does, for a dump of threads.
func (s *Session) Describe() string {
	return fmt.Sprintf("upstream %s, HTTP/2, %d streams", s.stream.RemoteAddr(), s.users)
}

// lastWords is a socket that is written to once, without a wait.
type lastWords struct {
	net.Conn // nil
	fd       int
}

// Write implements net.Conn.
func (w lastWords) Write(p []byte) (int, error) {
	n, errno := sysio.Send(w.fd, p, false)
	if errno != 0 {
		return n, errno
	}
	return n, nil
}

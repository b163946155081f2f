package http2client

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Errors of a Stream. Others say that the connection has ended, or that the server has reset the
// stream.
var (
	// ErrRefused is in the error of a request that the server has certainly not acted on: it has said
	// so, with REFUSED_STREAM or GOAWAY (RFC 9113 section 8.7). It can be sent again.
	ErrRefused = errors.New("the upstream has not taken the request")
	// ErrMalformed is in the error of an answer that breaks a rule.
	ErrMalformed = errors.New("malformed answer")

	errNoStreams = errors.New("the upstream takes no request (SETTINGS_MAX_CONCURRENT_STREAMS is 0)")

	errHeadSize = errors.New("the head is too large")
	errInterim  = errors.New("too many interim responses")
	errFields   = errors.New("bad fields")
	errLength   = errors.New("the content is not as long as announced")
)

// maxInterim is how many interim responses may come for a request.
const maxInterim = 64

// Stream is one request and its answer. It belongs to the thread that asks. All calls but Await return
// at once.
type Stream struct {
	s    *Session
	user *loop.Thread
	id   uint32 // 0: it was not opened
	at   int    // its place among the session's open streams; -1: none
	self [1]loop.Source

	// The answer.
	head       bool // the request's method is HEAD
	limit      int  // of a head
	heads      []Head
	taken      int // of heads, by NextHead
	interim    int
	final      bool // the last head is there
	buf        []byte
	r          int   // buf[r:] was not read yet
	expected   int64 // content that is to come; -1: unknown
	answered   bool  // there is no more to come
	trailer    *http2.Fields
	ownWindow  int64 // how much the server may send before something is read,
	credit     int64 // and how much it may still send
	returned   int64 // what was read of that and not announced yet
	err        error // why nothing more can be sent, nor, unless it is answered, come
	wantsInput bool

	// The request.
	window     int64  // how much the server takes
	pending    []byte // content that waits for the session
	ends       bool   // the request ends behind that,
	fields     []byte // with these trailers
	sent       bool   // it has ended
	queued     bool
	next, prev *Stream
	lastFrame  int  // where the head of its last Data frame stands in the session's output,
	lastBatch  uint // if that is still the same
	wantsRoom  bool
	mark       int // how much was pending when the wait began
}

// Head is that of an answer or of an interim response.
type Head struct {
	http2.Fields
	Status int
	Length int64 // by Content-Length; -1: unknown
}

var streams = sync.Pool{New: func() any {
	st := new(Stream)
	st.self[0] = st
	return st
}}

// Room reports whether the session takes another request. One whose server is silent, or takes nothing,
// does not; and until the server's SETTINGS have come it takes one alone.
func (s *Session) Room() bool {
	return !s.leaving && !s.pinging && len(s.ids)+s.idle < s.most &&
		s.next <= lastStream-2*uint32(s.idle) && len(s.out)+s.held.Held() <= maxBacklog && !s.worn()
}

// Greeted waits until the server's SETTINGS have come, for d at most. t is the calling thread. The error
// says why no request can be sent.
func (s *Session) Greeted(t *loop.Thread, d time.Duration) error {
	if _, err := s.greeting.Await(t, d); err != nil {
		return err
	}
	if s.most == 0 {
		return errNoStreams
	}
	return nil
}

// Stream begins a request of thread t. There must be Room. keep is for how long the connection is used
// from now on. kept: it has served other requests.
func (s *Session) Stream(t *loop.Thread, keep Life) (st *Stream, kept bool) {
	s.keep = keep
	kept = s.served > 0
	if s.users == 0 {
		s.heard, s.quiet = s.now(), false // it had nothing to say
	}
	s.users++
	s.idle++
	st = streams.Get().(*Stream)
	st.s, st.user, st.at = s, t, -1
	st.ownWindow, st.credit = streamWindow, streamWindow
	return st, kept
}

// Close ends the use of the stream. The server is told if it has not ended.
func (st *Stream) Close() {
	s := st.s
	switch {
	case st.id == 0:
		s.idle--
	case st.at >= 0 && s.err == nil:
		s.reset(st, http2.Cancel)
		// Servers end a connection on which most requests are given up. One client that does this must
		// not take the answers of others along.
		if !st.answered {
			if s.canceled++; s.canceled >= maxCanceled {
				s.leave()
			}
		}
	case st.at >= 0:
		s.remove(st)
	}
	growth.Add(streamWindow - st.ownWindow)
	if s.users--; s.users == 0 {
		s.free = s.now()
	}
	s.wake()
	heads, buf, pending := st.heads, st.buf, st.pending
	for i := range heads {
		heads[i].Reset(0)
	}
	if cap(buf) > keptBuffer {
		buf = nil
	}
	if cap(pending) > keptBuffer {
		pending = nil
	}
	*st = Stream{}
	st.self[0] = st
	st.heads, st.buf, st.pending = heads[:0], buf[:0], pending[:0]
	streams.Put(st)
}

// keptBuffer is the largest buffer that a stream keeps for the next one.
const keptBuffer = 4 << 10

// Open sends the head of the request, which is text of HTTP/1.1 (see http2.AppendRequest). ends: there
// is nothing behind it. limit is how long the head of an answer may be, in bytes; head says that the
// method is HEAD.
func (st *Stream) Open(text []byte, ends bool, limit int, head bool) {
	s := st.s
	s.idle--
	st.limit, st.head, st.expected = limit, head, -1
	st.id = s.next
	if s.err != nil {
		st.err = s.err
		return
	}
	if s.goneAway {
		st.err = ErrRefused
		return
	}
	s.next += 2
	s.served++
	st.window, st.at = s.newWindow, len(s.ids)
	s.ids, s.streams = append(s.ids, st.id), append(s.streams, st)
	flags := uint8(0)
	if ends {
		flags, st.ends, st.sent = http2.EndStream, true, true
	}
	s.head(st, text, flags)
}

// Write sends p, or holds the part for which the server has no room yet. To bound what is held, the
// caller writes no more until Held returns 0. After an error the server takes no more of the request,
// and an answer may still come.
func (st *Stream) Write(p []byte) error {
	if st.err != nil {
		return st.err
	}
	if p = st.sendNow(p); len(p) > 0 {
		st.pending = append(st.pending, p...)
		st.requeue()
		st.s.wake()
	}
	return nil
}

// Held returns how many bytes are held.
func (st *Stream) Held() int { return len(st.pending) }

// End ends the request. fields calls its argument for each field of the trailer section; nil: there are
// none.
func (st *Stream) End(fields func(field func(name, value string))) {
	if st.err != nil || st.ends {
		return
	}
	st.ends = true
	if fields != nil {
		fields(func(name, value string) { st.fields = http2.AppendField(st.fields, name, value) })
	}
	if len(st.pending) == 0 {
		st.finish()
	}
}

// Head returns the head that has come first, nil if there is none. It is valid until NextHead.
func (st *Stream) Head() *Head {
	if st.taken == len(st.heads) {
		return nil
	}
	return &st.heads[st.taken]
}

// NextHead drops it.
func (st *Stream) NextHead() {
	if st.taken++; st.taken == len(st.heads) {
		st.heads, st.taken = st.heads[:0], 0
	}
}

// Read reads the content that has come. At the end the error is io.EOF. It is stream.ErrWouldBlock
// while nothing has come.
func (st *Stream) Read(p []byte) (int, error) {
	if n := copy(p, st.buf[st.r:]); n > 0 {
		if st.r += n; st.r == len(st.buf) {
			st.buf, st.r = st.buf[:0], 0
			if cap(st.buf) > streamWindow {
				st.buf = nil
			}
		}
		st.consumed(n)
		return n, nil
	}
	switch {
	case st.answered:
		return 0, io.EOF
	case st.err != nil:
		return 0, st.err
	}
	return 0, stream.ErrWouldBlock
}

// Trailer calls f for each field behind the content, after its end.
func (st *Stream) Trailer(f func(name, value []byte)) {
	if t := st.trailer; t != nil {
		for _, field := range t.List {
			f(field.Name.Of(t.Buf), field.Value.Of(t.Buf))
		}
	}
}

// Await waits for what Source says, at most limit. Its errors are those of loop.Thread.AwaitAny.
func (st *Stream) Await(limit time.Duration) error {
	st.wants(true)
	_, err := st.user.AwaitAny(limit, st.self[:]...)
	return err
}

// Source is ready when something of the answer has come, and input is set, or when the server has
// taken some of what is held.
func (st *Stream) Source(input bool) loop.Source {
	st.wants(input)
	return st
}

func (st *Stream) wants(input bool) {
	st.wantsInput, st.wantsRoom, st.mark = input, len(st.pending) > 0, len(st.pending)
}

// Watch implements loop.Source.
func (st *Stream) Watch(*loop.Thread) error { return nil }

// Ready implements loop.Source.
func (st *Stream) Ready() bool {
	return st.wantsRoom && (len(st.pending) < st.mark || st.err != nil) ||
		st.wantsInput && (st.r < len(st.buf) || st.taken < len(st.heads) || st.answered || st.err != nil)
}

// Unwatch implements loop.Source.
func (st *Stream) Unwatch(*loop.Thread) {}

// fail ends the stream with an error.
func (st *Stream) fail(err error) {
	st.unqueue()
	st.pending = nil
	if st.err == nil {
		st.err = err
	}
	loop.NotifyLocal(st.user)
}

package http2client

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
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

// resetError is the error of a stream that the server has reset with that code.
type resetError http2.Code

func (e resetError) Error() string { return "the stream was reset: " + http2.Code(e).Error() }

func (e resetError) Unwrap() error { return http2.Code(e) }

// ResetCode returns the code (RFC 9113 section 7).
func (e resetError) ResetCode() uint32 { return uint32(e) }

// maxInterim is how many interim responses may come for a request.
const maxInterim = 64

// Stream is one request and its answer. It belongs to the thread that asks. All calls but Await
// return at once.
type Stream struct {
	s    *Session
	user *loop.Thread
	self [1]loop.Source

	// The answer.
	head       bool // the request's method is HEAD
	limit      int  // of a head
	heads      []Head
	taken      int // of heads, by NextHead
	interim    int
	final      bool // the last head is there
	in         http2.Inbox
	expected   int64 // content that is to come; -1: unknown
	complete   bool  // there is no more to come
	trailer    *http2.Fields
	flow       http2.Inflow
	err        error // why nothing more can be sent, nor, unless it is answered, come
	wantsInput bool

	// The request.
	http2.Sender         // its ID is 0 if the stream was not opened
	room          []byte // for what is pending
	ends          bool   // the request ends behind that,
	fields        []byte // with these trailers
	sent          bool   // it has ended
	wantsRoom     bool
	pendingBefore int // how much was pending when the wait began
}

// Head is that of an answer or of an interim response.
type Head struct {
	http2.Fields
	Status int
	Length int64 // by Content-Length; -1: unknown
}

// Has reports whether there is a field of that name, which is in lower case.
func (h *Head) Has(name string) bool {
	return slices.ContainsFunc(h.List, func(f http1.Field) bool {
		return string(f.Name.Of(h.Buf)) == name
	})
}

var streams = sync.Pool{New: func() any {
	st := new(Stream)
	st.self[0] = st
	return st
}}

// Room reports whether the session takes another request. One whose server is silent, or takes
// nothing, does not; and until the server's SETTINGS have come it takes one alone.
func (s *Session) Room() bool {
	return !s.closing && !s.pingPending && len(s.Open)+s.idle < s.streamLimit &&
		s.next <= lastStream-2*uint32(s.idle) && len(s.Out) <= maxBacklog &&
		s.held.Held() <= http2.MaxPendingOutput && !s.servedEnough()
}

// AwaitSettings waits until the server's SETTINGS have come, for d at most. t is the calling
// thread. The error says why no request can be sent.
func (s *Session) AwaitSettings(t *loop.Thread, d time.Duration) error {
	if _, err := s.ready.Await(t, d); err != nil {
		return err
	}
	if s.streamLimit == 0 {
		return errNoStreams
	}
	return nil
}

// Stream begins a request of thread t. There must be Room. keep is for how long the connection is
// used from now on. reused: it has served other requests.
func (s *Session) Stream(t *loop.Thread, keep Lifetime) (st *Stream, reused bool) {
	s.limits = keep
	reused = s.served > 0
	if s.users == 0 {
		s.lastFrame, s.noAnswerSince = s.now(), false // it had nothing to say
	}
	s.users++
	s.idle++
	st = streams.Get().(*Stream)
	st.s, st.user, st.flow = s, t, http2.Inflow{Size: streamWindow, Window: streamWindow}
	return st, reused
}

// Close ends the use of the stream. The server is told if it has not ended.
func (st *Stream) Close() {
	s := st.s
	switch {
	case st.ID == 0:
		s.idle--
	case st.IsOpen() && s.err == nil:
		s.reset(st, http2.Cancel)
		// Servers end a connection on which most requests are given up. One client that does this must
		// not take the answers of others along.
		if !st.complete {
			if s.canceled++; s.canceled >= maxCanceled {
				s.stopStreams()
			}
		}
	case st.IsOpen():
		s.Remove(&st.Sender)
	}
	windows.Give(st.flow.Size - streamWindow)
	if s.users--; s.users == 0 {
		s.idleSince = s.now()
	}
	s.wake()
	st.in.Reset()
	heads, in, room := st.heads, st.in, st.room
	for i := range heads {
		heads[i].Reset(0)
	}
	if cap(room) > maxPooledBuffer {
		room = nil
	}
	*st = Stream{}
	st.self[0] = st
	st.heads, st.in, st.room = heads[:0], in, room[:0]
	streams.Put(st)
}

// maxPooledBuffer is the largest buffer that a stream leaves to the next one.
const maxPooledBuffer = 4 << 10

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

// Read reads the content that has come. The error is io.EOF behind END_STREAM, and only there:
// where the connection has ended before, it has io.ErrUnexpectedEOF in it. It is
// stream.ErrWouldBlock while nothing has come.
func (st *Stream) Read(p []byte) (int, error) {
	if n := st.in.Read(p); n > 0 {
		st.widen(n)
		return n, nil
	}
	switch {
	case st.complete:
		return 0, io.EOF
	case st.err != nil:
		return 0, st.err
	}
	return 0, stream.ErrWouldBlock
}

// Ended reports that END_STREAM has come, and that all of the content was read.
func (st *Stream) Ended() bool { return st.complete && st.in.Len() == 0 }

// Trailer calls f for each field behind the content, after its end.
func (st *Stream) Trailer(f func(name, value []byte)) {
	if t := st.trailer; t != nil {
		t.Each(f)
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
	st.wantsInput, st.wantsRoom, st.pendingBefore = input, len(st.Pending) > 0, len(st.Pending)
}

// Watch implements loop.Source.
func (st *Stream) Watch(*loop.Thread) error { return nil }

// Ready implements loop.Source.
func (st *Stream) Ready() bool {
	return st.wantsRoom && (len(st.Pending) < st.pendingBefore || st.err != nil) ||
		st.wantsInput && (st.in.Len() > 0 || st.taken < len(st.heads) || st.complete || st.err != nil)
}

// Unwatch implements loop.Source.
func (st *Stream) Unwatch(*loop.Thread) {}

// fail ends the stream with an error.
func (st *Stream) fail(err error) {
	st.s.Unqueue(&st.Sender)
	st.Pending, st.Allowed = nil, 0
	if st.err == nil {
		st.err = err
	}
	st.user.Layer().NotifyLocal()
}

package conn

import (
	"slices"
	"time"

	"github.com/lwango/lwango/internal/wire/http2"
)

// closedStream is what a session keeps of a stream whose client may still send. Its thread has
// ended, and what comes is dropped.
//
// Behind an answer that has not waited for the end of the body, the client is not stopped at once:
// some clients take RST_STREAM for the end of the exchange and lose the answer, even with NO_ERROR
// (RFC 9113 section 8.1). So what HTTP/1.1 drains is drained here, too: drainLimit bytes, each
// within body_timeout. Then the client is reset.
//
// What was on its way when the reset was sent is no mistake (RFC 9113 section 5.1). It is no more
// than credit.
type closedStream struct {
	id       uint32
	stopped  bool  // by RST_STREAM; until then its mistakes are those of an open stream
	left     int64 // bytes that may come before it is stopped
	credit   int64 // bytes that may come at all
	expected int64 // what is missing of its Content-Length; -1: unknown
	window   int64 // how much content the client would take
	// on the loop's clock: when it is stopped at the latest, or, if it was, forgotten
	until time.Duration
}

// maxClosedStreams is how many of them a session keeps. The oldest one makes way for a new one.
const maxClosedStreams = 128

// never is a time on the loop's clock that does not come.
const never = time.Duration(1<<63 - 1)

// halfClosedLocal reports whether the client may go on behind an answer that has ended.
func (st *h2stream) halfClosedLocal() bool {
	return st.err == nil && st.s.err == nil && st.IsOpen() && st.ended && !st.body.ended
}

// drain keeps a closedStream for st, whose answer is complete and whose body is not.
func (s *session) drain(st *h2stream) {
	b := &st.body
	r := closedStream{id: st.ID, left: drainLimit, credit: b.flow.Window, expected: b.expected,
		window: st.Window}
	more := max(drainLimit+1-r.credit, 0) // a client that is to be stopped sends one byte too many
	s.announce(r.id, more)
	r.credit += more
	s.keep(r)
}

// ignore keeps a closedStream of a stream that was reset, whose client had so much credit.
func (s *session) ignore(id uint32, credit int64) {
	s.keep(closedStream{id: id, stopped: true, credit: credit})
}

// ignoreRest is ignore for a stream that is being reset.
func (s *session) ignoreRest(st *h2stream) {
	if !st.body.ended {
		s.ignore(st.ID, st.body.flow.Window)
	}
}

func (s *session) keep(r closedStream) {
	if len(s.closedStreams) == maxClosedStreams {
		s.stop(&s.closedStreams[0])
		s.closedStreams = append(s.closedStreams[:0], s.closedStreams[1:]...)
	}
	r.until = s.resetTimeout()
	s.closedStreams = append(s.closedStreams, r)
}

// resetTimeout returns until when the client of a closed stream may send nothing.
func (s *session) resetTimeout() time.Duration {
	if s.set.BodyTimeout <= 0 {
		return never
	}
	l := s.Loop()
	return l.Layer().Clock(l.Time()) + s.set.BodyTimeout
}

// stop tells the client to stop.
func (s *session) stop(r *closedStream) {
	if !r.stopped {
		r.stopped = true
		s.Reset(r.id, http2.NoError)
		s.wake()
	}
}

// closedStream returns the index of the closedStream with that ID, -1 if there is none.
func (s *session) closedStream(id uint32) int {
	return slices.IndexFunc(s.closedStreams, func(r closedStream) bool { return r.id == id })
}

// late acts on a frame of the closed stream id, if there is a closedStream of it, and reports
// whether there is.
func (s *session) late(h http2.Header, payload []byte) (ok bool, code http2.Code) {
	i := s.closedStream(h.Stream)
	if i < 0 {
		return false, http2.NoError
	}
	r, over := &s.closedStreams[i], h.Flags&http2.EndStream != 0
	switch h.Type {
	case http2.Data:
		if !s.Inflow.Received(int64(h.Length)) {
			return true, http2.FlowControlError
		}
		s.dropped(int(h.Length))
		r.left -= int64(h.Length)
		r.credit -= int64(h.Length)
		r.until = s.resetTimeout()
		n := int64(len(payload))
		wrong := r.expected >= 0 && n > r.expected || over && n < r.expected
		if r.expected >= 0 {
			r.expected = max(r.expected-n, 0)
		}
		if r.credit < 0 {
			s.resetStream(r.id, http2.FlowControlError)
			over = true
		} else if wrong && !r.stopped {
			s.resetStream(r.id, http2.ProtocolError)
			r.stopped = true
		} else if !over && (r.left < 0 || r.credit == 0) {
			s.stop(r)
		}
	case http2.Headers: // the trailer section: see lateTrailer
		return true, s.block(h, payload)
	case http2.RSTStream:
		over = true
	case http2.WindowUpdate:
		n := int64(http2.Uint32(payload) &^ (1 << 31))
		r.window += n
		switch { // half-closed: errors all the same (section 6.9)
		case r.stopped || n > 0 && r.window <= http2.LargestWindow:
			return true, http2.NoError
		case n == 0:
			s.resetStream(r.id, http2.ProtocolError)
		default:
			s.resetStream(r.id, http2.FlowControlError)
		}
		r.stopped = true
		return true, http2.NoError
	default:
		return true, http2.NoError
	}
	if over {
		s.closedStreams = slices.Delete(s.closedStreams, i, i+1)
	}
	return true, code
}

// lateTrailer acts on a field block of a closed stream: the trailer section of what is drained.
func (s *session) lateTrailer(id uint32, ends bool, trailer *http2.Fields) {
	i := s.closedStream(id)
	if i < 0 {
		return
	}
	r := s.closedStreams[i]
	if r.stopped && !ends {
		return
	}
	s.closedStreams = slices.Delete(s.closedStreams, i, i+1)
	if _, ok := trailer.Request(true); !r.stopped && (!ok || !ends || r.expected > 0) {
		s.resetStream(id, http2.ProtocolError)
		if !ends {
			s.ignore(id, r.credit)
		}
	}
}

// expire tells clients to stop, or forgets them, once their time is over. It returns how long it is
// until another one is to be stopped; negative: none is.
func (s *session) expire() time.Duration {
	if len(s.closedStreams) == 0 {
		s.closedStreams = nil
		return -1
	}
	now := s.Loop().Layer().Clock(s.Loop().Time())
	next := never
	s.closedStreams = slices.DeleteFunc(s.closedStreams, func(r closedStream) bool {
		return r.stopped && r.until <= now
	})
	for i := range s.closedStreams {
		r := &s.closedStreams[i]
		if r.until <= now && !r.stopped {
			s.stop(r)
			r.until = s.resetTimeout()
		}
		if !r.stopped {
			next = min(next, r.until)
		}
	}
	if next == never {
		return -1
	}
	return next - now
}

// IdleTimedOut is called by the loop when the idle time is over, perhaps only that
// of a closed stream.
func (s *session) IdleTimedOut() time.Duration {
	before := len(s.Out)
	left := s.expire()
	lp := s.Loop()
	switch {
	case s.partFrom != 0 && s.restOfPart(lp.Layer().Clock(lp.Time())) <= time.Millisecond:
	case len(s.Out) > before:
		return time.Second // Run sets another limit
	case left >= 0:
		return max(left, time.Millisecond)
	}
	return s.connection.IdleTimedOut()
}

package http2client

import (
	"slices"

	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/loop"
)

// gather makes ready for frames.
func (s *Session) gather() {
	if len(s.out) > 0 {
		return
	}
	s.batch++
	if s.out == nil {
		s.out = outputs.Get().(*[outputSize]byte)[:0]
	}
}

// head gathers the head of a request.
func (s *Session) head(st *Stream, text []byte, flags uint8) {
	s.gather()
	at := len(s.out)
	s.out = http2.AppendHeader(s.out, http2.Headers, flags|http2.EndHeaders, st.id, 0)
	if st.id == 1 {
		s.out = append(s.out, http2.NoTable)
	}
	s.out = http2.AppendRequest(s.out, text, s.tls != nil)
	length := len(s.out) - at - http2.HeaderSize
	if length > s.frame {
		block := slices.Clone(s.out[at+http2.HeaderSize:])
		s.out = http2.AppendBlock(s.out[:at], st.id, flags, block, s.frame)
	} else {
		http2.PutLength(s.out[at:], length)
	}
	s.wake()
}

// requeue queues the stream, if it has content and the server takes some.
func (st *Stream) requeue() {
	if st.queued || len(st.pending) == 0 || st.window <= 0 || st.at < 0 {
		return
	}
	s := st.s
	st.queued, st.prev, st.next = true, s.last, nil
	if s.last == nil {
		s.first = st
	} else {
		s.last.next = st
	}
	s.last = st
}

func (st *Stream) unqueue() {
	if !st.queued {
		return
	}
	s := st.s
	if st.prev == nil {
		s.first = st.next
	} else {
		st.prev.next = st.next
	}
	if st.next == nil {
		s.last = st.prev
	} else {
		st.next.prev = st.prev
	}
	st.queued, st.prev, st.next = false, nil, nil
}

// sendNow gathers what can go out before all else, and returns the rest.
func (st *Stream) sendNow(p []byte) []byte {
	for s := st.s; len(p) > 0 && len(st.pending) == 0 && s.first == nil && st.window > 0 && s.window > 0 &&
		len(s.out) < maxOutput/2 && s.held.Held() == 0; {
		n := int(min(int64(len(p)), int64(s.frame), st.window, s.window))
		s.piece(st, p[:n])
		p = p[n:]
	}
	return p
}

// piece gathers a Data frame.
func (s *Session) piece(st *Stream, p []byte) {
	s.gather()
	st.lastFrame, st.lastBatch = len(s.out), s.batch
	s.out = http2.AppendHeader(s.out, http2.Data, 0, st.id, len(p))
	s.out = append(s.out, p...)
	st.window -= int64(len(p))
	s.window -= int64(len(p))
	// The server announces that it has read this, on both windows and perhaps in small pieces.
	s.useless = max(s.useless-2-len(p)>>9, -maxUpdates)
	s.wake()
}

// fill gathers content of the streams that wait, in turn.
func (s *Session) fill() {
	for s.first != nil && len(s.out) < maxOutput && s.window > 0 {
		st := s.first
		st.unqueue()
		n := int(min(int64(len(st.pending)), int64(s.frame), st.window, s.window))
		s.piece(st, st.pending[:n])
		// What is left moves to the front: the caller never has more than a piece pending.
		if st.pending = st.pending[:copy(st.pending, st.pending[n:])]; len(st.pending) == 0 && st.ends {
			st.finish()
		}
		loop.NotifyLocal(st.user)
		st.requeue()
	}
}

// finish gathers the end of a request.
func (st *Stream) finish() {
	s := st.s
	st.sent = true
	s.gather()
	switch {
	case len(st.fields) > 0:
		s.out = http2.AppendBlock(s.out, st.id, http2.EndStream, st.fields, s.frame)
	case st.lastBatch == s.batch && st.lastBatch != 0: // its last frame has not gone out
		s.out[st.lastFrame+4] |= http2.EndStream
	default:
		s.out = http2.AppendHeader(s.out, http2.Data, http2.EndStream, st.id, 0)
	}
	if st.answered {
		s.remove(st)
	}
	s.wake()
}

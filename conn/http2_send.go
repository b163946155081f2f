package conn

import (
	"github.com/lwango/lwango/internal/http2"
	"github.com/lwango/lwango/loop"
)

// rank says when a stream is served (RFC 9218 section 10): twice its urgency, and 1 more if it takes
// turns with others. Streams of one urgency whose client has asked for whole answers, by a priority
// that is not incremental, come first, one after the other in the order of their requests. Streams
// whose client has said nothing take turns: such a client often has much besides what it waits for.
type rank uint8

const (
	ranks            = 16
	turns       rank = 1
	defaultRank      = 2*http2.DefaultUrgency + turns
)

// rankOf parses a priority.
func rankOf(value []byte) rank {
	urgency, incremental := http2.ParsePriority(value)
	r := 2 * rank(urgency)
	if incremental {
		r += turns
	}
	return r
}

// streamQueue is a list of streams of one rank with content to be sent.
type streamQueue struct{ first, last *h2stream }

// push puts a stream behind all others, or, if they do not take turns, behind those that are older.
func (q *streamQueue) push(st *h2stream) {
	before := q.last
	if before != nil && st.rank&turns == 0 && q.first.id > st.id { // the usual case
		before = nil
	}
	for before != nil && st.rank&turns == 0 && before.id > st.id {
		before = before.prev
	}
	st.prev = before
	if before == nil {
		q.first, st.next = st, q.first
	} else {
		before.next, st.next = st, before.next
	}
	if st.next == nil {
		q.last = st
	} else {
		st.next.prev = st
	}
}

func (q *streamQueue) remove(st *h2stream) {
	if st.prev == nil {
		q.first = st.next
	} else {
		st.prev.next = st.next
	}
	if st.next == nil {
		q.last = st.prev
	} else {
		st.next.prev = st.prev
	}
	st.prev, st.next = nil, nil
}

// requeue queues the stream, if it has content and its client takes some.
func (st *h2stream) requeue() {
	if !st.inQueue && st.allowed > 0 && st.window > 0 {
		st.inQueue = true
		st.s.queue[st.rank].push(st)
		st.s.queued++
	}
}

func (st *h2stream) unqueue() {
	if st.inQueue {
		st.inQueue = false
		st.s.queue[st.rank].remove(st)
		st.s.queued--
	}
}

func (st *h2stream) setRank(r rank) {
	if r != st.rank {
		queued := st.inQueue
		st.unqueue()
		st.rank = r
		if queued {
			st.requeue()
		}
	}
}

// prioritize acts on a PRIORITY_UPDATE frame, which may come before the request and takes the place
// of its Priority field (RFC 9218 section 7).
func (s *session) prioritize(id uint32, value []byte) http2.Code {
	switch st := s.find(id); {
	case st != nil:
		st.setRank(rankOf(value))
	case id%2 == 0:
		return http2.ProtocolError
	case id > s.last:
		s.early[s.earlyCount%len(s.early)] = earlyRank{id, rankOf(value)}
		s.earlyCount++
	}
	return http2.NoError
}

// earlyRank is that of a stream which is not open yet.
type earlyRank struct {
	id   uint32
	rank rank
}

// earlyOf returns what was said of the stream before it was opened.
func (s *session) earlyOf(id uint32) (r rank, ok bool) {
	if s.earlyCount == 0 {
		return 0, false
	}
	for i := range s.early { // the last one counts
		e := &s.early[(s.earlyCount+len(s.early)-1-i)%len(s.early)]
		if e.id == id {
			return e.rank, true
		}
	}
	return 0, false
}

// quick reports whether a stream may add to the output at once: no other comes before it, and there
// is room.
func (s *session) quick(st *h2stream) bool {
	return len(s.out) < maxOutput/2 && st.window > 0 && s.window > 0 && s.held.Held() == 0 &&
		(s.queued == 0 || s.leads(st))
}

// leads reports whether a stream that is not queued comes before all that are. So a stream whose
// content comes in pieces keeps its place.
func (s *session) leads(st *h2stream) bool {
	for r := rank(0); r < st.rank; r++ {
		if s.queue[r].first != nil {
			return false
		}
	}
	first := s.queue[st.rank].first
	return first == nil || st.rank&turns == 0 && first.id > st.id
}

// gather makes ready for frames of a stream.
func (s *session) gather() {
	if len(s.out) > 0 {
		return
	}
	s.batch++
	if s.out == nil {
		s.out = outputs.Get().(*[outputSize]byte)[:0]
	}
}

// frameOf gathers a Data frame.
func (s *session) frameOf(st *h2stream, p []byte) {
	s.gather()
	st.lastFrame, st.lastBatch = len(s.out), s.batch
	s.out = http2.AppendHeader(s.out, http2.Data, 0, st.id, len(p))
	s.out = append(s.out, p...)
	st.window -= int64(len(p))
	s.window -= int64(len(p))
	// The client announces that it has read this, on both windows and perhaps in small pieces.
	s.idle = max(s.idle-2-len(p)>>9, -maxUpdates)
	st.out.Moved(s.port.loop, len(p))
	s.wake()
}

// fill gathers frames of the streams that wait, in the order of their ranks.
func (s *session) fill() {
	for r := range s.queue {
		for q := &s.queue[r]; q.first != nil; {
			if len(s.out) >= maxOutput || s.window <= 0 {
				return
			}
			st := q.first
			st.unqueue()
			n := int(min(int64(st.allowed), int64(s.frame), st.window, s.window))
			s.frameOf(st, st.pending[:n])
			st.allowed -= n
			if st.pending = st.pending[n:]; len(st.pending) == 0 {
				st.pending = nil
			}
			if st.allowed == 0 {
				loop.NotifyLocal(st.user)
			}
			st.requeue()
		}
	}
}

// beginHead gathers the beginning of a Headers frame, and returns where it stands.
func (s *session) beginHead(id uint32, flags uint8, status int) (at int) {
	at = s.beginBlock(id, flags)
	s.out = http2.AppendStatus(s.out, status)
	return at
}

func (s *session) beginBlock(id uint32, flags uint8) (at int) {
	s.gather()
	at = len(s.out)
	s.out = http2.AppendHeader(s.out, http2.Headers, flags|http2.EndHeaders, id, 0)
	if s.flags&tableless == 0 {
		s.flags |= tableless
		s.out = append(s.out, http2.NoTable)
	}
	return at
}

// endHead ends the frame that begins at an offset of the output. A block that is longer than a
// frame goes on in Continuation frames.
func (s *session) endHead(at int) {
	length := len(s.out) - at - http2.HeaderSize
	if length > s.frame {
		s.split(at, length)
	} else {
		http2.PutLength(s.out[at:], length)
	}
	s.wake()
}

func (s *session) split(at, length int) {
	block := append([]byte(nil), s.out[at+http2.HeaderSize:]...)
	h := http2.ParseHeader(s.out[at:])
	s.out = s.out[:at]
	t, flags := http2.Headers, h.Flags&^http2.EndHeaders
	for len(block) > 0 {
		n := min(len(block), s.frame)
		if n == len(block) {
			flags |= http2.EndHeaders
		}
		s.out = http2.AppendHeader(s.out, t, flags, h.Stream, n)
		s.out = append(s.out, block[:n]...)
		block = block[n:]
		t, flags = http2.Continuation, 0
	}
}

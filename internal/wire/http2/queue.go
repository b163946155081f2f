package http2

// Rank says when a stream is served (RFC 9218 section 10): twice its urgency, and 1 more if it
// takes turns with others. Streams of one urgency whose client has asked for whole answers, by a
// priority that is not incremental, come first, one after the other in the order of their requests.
// Streams whose client has said nothing take turns: such a client often has much besides what it
// waits for.
type Rank uint8

const (
	numRanks            = 16
	incrementalBit Rank = 1

	// DefaultRank is that of a stream whose client says nothing.
	DefaultRank = 2*DefaultUrgency + incrementalBit
)

// RankOf parses a priority.
func RankOf(value []byte) Rank {
	urgency, incremental := ParsePriority(value)
	r := 2 * Rank(urgency)
	if incremental {
		r += incrementalBit
	}
	return r
}

// Sender is the half of a stream that sends.
type Sender struct {
	ID      uint32
	Rank    Rank
	queued  bool
	Window  int64  // how much content the peer takes
	Pending []byte // content that waits for its turn,
	Allowed int    // and how much of it may go out
	Owner   Owner

	next, prev *Sender
	lastBatch  uint  // where the head of its last Data frame stands in Wire.Out,
	lastFrame  int32 // if that is still the same
	at         int32 // its place in Wire.Open, from 1; 0: none
}

// Owner is the stream of a Sender.
type Owner interface {
	// Gathered is called when n bytes of Pending were gathered.
	Gathered(n int)
}

// IsOpen reports whether the stream is among those that are open.
func (s *Sender) IsOpen() bool { return s.at > 0 }

// senderQueue is a list of streams of one rank with content to be sent.
type senderQueue struct{ first, last *Sender }

// push puts a stream behind all others, or, if they do not take turns, behind those that are older.
func (q *senderQueue) push(s *Sender) {
	before := q.last
	if before != nil && s.Rank&incrementalBit == 0 && q.first.ID > s.ID { // the usual case
		before = nil
	}
	for before != nil && s.Rank&incrementalBit == 0 && before.ID > s.ID {
		before = before.prev
	}
	s.prev = before
	if before == nil {
		q.first, s.next = s, q.first
	} else {
		before.next, s.next = s, before.next
	}
	if s.next == nil {
		q.last = s
	} else {
		s.next.prev = s
	}
}

func (q *senderQueue) remove(s *Sender) {
	if s.prev == nil {
		q.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// Requeue queues a stream, if it has content and the peer takes some.
func (w *Wire) Requeue(s *Sender) {
	if !s.queued && s.Allowed > 0 && s.Window > 0 && s.at > 0 {
		s.queued = true
		if w.queue == nil {
			w.queue = queues.Get().(*[numRanks]senderQueue)
		}
		w.queue[s.Rank].push(s)
		w.queued++
		w.waiting += s.due()
	}
}

// due is how much of Wire.waiting a stream has. While it is queued, Allow and widen alone change
// that.
func (s *Sender) due() int64 {
	if !s.queued {
		return 0
	}
	return min(int64(s.Allowed), s.Window)
}

// Allow says how much of what is pending may go out, and queues the stream, if that is anything.
func (w *Wire) Allow(s *Sender, n int) {
	if n == 0 { // else its turn would be a frame of nothing
		w.Unqueue(s)
	}
	w.waiting -= s.due()
	s.Allowed = n
	w.waiting += s.due()
	w.Requeue(s)
}

// addWindow changes a stream's window.
func (w *Wire) addWindow(s *Sender, n int64) {
	w.waiting -= s.due()
	s.Window += n
	w.waiting += s.due()
}

// Room returns how much content of a stream the peer's windows would take now, behind what waits
// already.
func (w *Wire) Room(s *Sender) int64 {
	return max(min(s.Window-int64(len(s.Pending)), w.Window-w.waiting), 0)
}

// Unqueue takes a stream out of the queue.
func (w *Wire) Unqueue(s *Sender) {
	if s.queued {
		w.waiting -= s.due()
		s.queued = false
		w.queue[s.Rank].remove(s)
		w.queued--
	}
}

// BlockedOnConnWindow reports whether streams have content that only the window of the connection
// holds up.
func (w *Wire) BlockedOnConnWindow() bool { return w.queued > 0 && w.Window <= 0 }

// SetRank changes when a stream is served.
func (w *Wire) SetRank(s *Sender, r Rank) {
	if r != s.Rank {
		w.Unqueue(s)
		s.Rank = r
		w.Requeue(s)
	}
}

// isNext reports whether a stream that is not queued comes before all that are. So a stream whose
// content comes in pieces keeps its place.
func (w *Wire) isNext(s *Sender) bool {
	for r := Rank(0); r < s.Rank; r++ {
		if w.queue[r].first != nil {
			return false
		}
	}
	first := w.queue[s.Rank].first
	return first == nil || s.Rank&incrementalBit == 0 && first.ID > s.ID
}

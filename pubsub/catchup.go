package pubsub

import "time"

const (
	unreadTimeout = 500 * time.Millisecond // Offer waits so long for a subscriber that does not read,
	perMessage    = 10 * time.Millisecond  // so much longer after each message that it reads,
	maxCatchUp    = 10 * time.Second       // and so long for all subscribers together
	outageEnd     = 10 * time.Second       // the outage is over so long after the last Offer

	// maxStep is how much an offerTimer runs between two calls of Offer at most. If more time has
	// passed, this process had no processor, and that is not the subscriber's fault.
	maxStep = 10 * time.Millisecond
)

// offerTimer is how long Offer still waits for a subscriber.
type offerTimer struct {
	left time.Duration // 0: no longer
	at   uint64        // the subscriber's position when left was set
}

// endOutage ends an outage that is over.
func (f *Feed) endOutage(now time.Time) {
	if now.Sub(f.lastOffer) > outageEnd {
		f.timers, f.waited = nil, 0
	}
}

// room returns how many of ms can be appended before a subscriber loses a message for which Offer
// waits. passed is the time since the last Offer, step at most.
func (f *Feed) room(ms []*Message, passed time.Duration) int {
	l := f.log
	next := l.next.Load()
	half := l.hub.Limits.TopicBytes / 2
	if l.shared() { // the subscribers have one queue
		unread := min(int(next-l.selection.taken), l.len())
		return fit(ms, (int(l.depth)+1)/2-unread, half-l.lastBytes(unread), unread)
	}
	most := l.within(half - ms[0].size())
	room, slowest, stop := MaxQueue, 0, false
	for _, s := range f.subs {
		unread := s.unread(next)
		switch {
		case s.overrun(unread), f.timedOut(s):
			continue // it has lost a message already, or will
		case unread > 0 && (unread >= s.halfQueue() || unread > most):
			stop = f.waitsFor(s, passed) || stop
			continue
		}
		room, slowest = min(room, s.halfQueue()-unread), max(slowest, unread)
	}
	if stop {
		f.waited += passed
		return 0
	}
	return fit(ms, room, half-l.lastBytes(slowest), slowest)
}

// timedOut reports whether the timer of s has run out.
func (f *Feed) timedOut(s *Subscription) bool {
	c, ok := f.timers[s]
	return ok && c.left == 0
}

// waitsFor reports whether Offer waits for s, which has no room.
func (f *Feed) waitsFor(s *Subscription, passed time.Duration) bool {
	c, ok := f.timers[s]
	if !ok {
		c = offerTimer{left: unreadTimeout, at: s.at}
	} else if !s.group.notifying() { // else it may not know yet that there is a message
		c.left -= passed
	}
	if read := s.at - c.at; read > 0 {
		// With a small queue, the subscriber gets few messages at a time.
		each := max(perMessage, unreadTimeout/time.Duration(4*s.halfQueue()))
		c.left += time.Duration(min(read, uint64(unreadTimeout/perMessage))) * each
		c.left = min(c.left, unreadTimeout)
	}
	if c.at = s.at; c.left < 0 || f.waited > maxCatchUp {
		c.left = 0
	}
	if f.timers == nil {
		f.timers = make(map[*Subscription]offerTimer)
	}
	f.timers[s] = c
	return c.left > 0
}

// fit returns how many of ms there is room for, by number and bytes. If the first message alone
// exceeds bytes, it fits once no message is unread.
func fit(ms []*Message, room, bytes, unread int) (n int) {
	for n < min(len(ms), room) && ms[n].size() <= bytes {
		bytes -= ms[n].size()
		n++
	}
	if n == 0 && room > 0 && unread == 0 {
		return 1
	}
	return n
}

// lastBytes returns the size of the last n messages in the log.
func (l *log) lastBytes(n int) (bytes int) {
	next := l.next.Load()
	for i := next - uint64(min(n, l.len())); i < next; i++ {
		bytes += l.at(i).size()
	}
	return bytes
}

// within returns how many of the last messages have at most so many bytes together.
func (l *log) within(bytes int) (n int) {
	for next := l.next.Load(); n < l.len(); n++ {
		if bytes -= l.at(next - uint64(n) - 1).size(); bytes < 0 {
			return n
		}
	}
	return n
}

// halfQueue is how many messages of its queue Offer fills before it waits.
func (s *Subscription) halfQueue() int { return (int(s.limit) + 1) / 2 }

// unread returns how many messages s has not read. If s cannot get all of them, the messages before
// a gap do not count: the gap is not the subscriber's fault, and Offer waits for the messages after
// it. The caller holds the log's lock.
func (s *Subscription) unread(next uint64) int {
	if s.policy == DropNewest {
		return len(s.extra.messages)
	}
	unread := int(next - s.at)
	if s.overrun(unread) {
		unread = min(unread, int(next-s.group.log.gap))
	}
	return unread
}

// overrun reports whether s cannot get so many messages any more.
func (s *Subscription) overrun(unread int) bool {
	return s.policy != DropNewest && (unread > int(s.limit) || unread > s.group.log.len())
}

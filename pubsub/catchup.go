package pubsub

import "time"

const (
	patience = 500 * time.Millisecond // for a subscriber that does not read
	pace     = 10 * time.Millisecond  // for each message that it reads
	longest  = 10 * time.Second       // for all of them: more may be published than they read
	calm     = 10 * time.Second       // without anything late: the outage is over

	// Time passes for a clock in steps of at most this, one for each Offer. If more time has passed
	// since the last, then this process had no processor, and that is no subscriber's fault.
	step = 10 * time.Millisecond
)

// clock is how long Offer still waits for a subscriber.
type clock struct {
	left time.Duration // 0: no more
	at   uint64        // the subscriber's position when that was set
}

// settle ends an outage that is over.
func (f *Feed) settle(now time.Time) {
	if now.Sub(f.late) > calm {
		f.clocks, f.waited = nil, 0
	}
}

// room returns how many of ms can be appended before a subscriber loses a message for which Offer
// waits. passed is the time since the last Offer, step at most.
func (f *Feed) room(ms []*Message, passed time.Duration) int {
	l := f.log
	next := l.next.Load()
	half := l.hub.Limits.TopicBytes / 2
	if l.shared() { // they have one queue
		unread := min(int(next-l.selection.taken), l.len())
		return fit(ms, (int(l.depth)+1)/2-unread, half-l.lastBytes(unread), unread)
	}
	most := l.within(half - ms[0].size())
	room, slowest, stop := MaxQueue, 0, false
	for _, s := range f.subs {
		unread := s.unread(next)
		switch {
		case s.overrun(unread), f.over(s):
			continue // it has lost something already, or will
		case unread > 0 && (unread >= s.share() || unread > most):
			stop = f.waits(s, passed) || stop
			continue
		}
		room, slowest = min(room, s.share()-unread), max(slowest, unread)
	}
	if stop {
		f.waited += passed
		return 0
	}
	return fit(ms, room, half-l.lastBytes(slowest), slowest)
}

// over reports whether the clock of s has run out.
func (f *Feed) over(s *Subscription) bool {
	c, ok := f.clocks[s]
	return ok && c.left == 0
}

// waits reports whether Offer waits for s, which has no room.
func (f *Feed) waits(s *Subscription, passed time.Duration) bool {
	c, ok := f.clocks[s]
	if !ok {
		c = clock{left: patience, at: s.at}
	} else if !s.group.notifying() { // else it may not know yet that there is something
		c.left -= passed
	}
	if read := s.at - c.at; read > 0 {
		each := max(pace, patience/time.Duration(4*s.share())) // a small queue gets few at a time
		c.left += time.Duration(min(read, uint64(patience/pace))) * each
		c.left = min(c.left, patience)
	}
	if c.at = s.at; c.left < 0 || f.waited > longest {
		c.left = 0
	}
	if f.clocks == nil {
		f.clocks = make(map[*Subscription]clock)
	}
	f.clocks[s] = c
	return c.left > 0
}

// fit returns how many of ms go into room, by number and bytes. A message that is larger than all
// that may wait together comes alone.
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

// lastBytes returns the size of the last n messages, of those that are held.
func (l *log) lastBytes(n int) (bytes int) {
	next := l.next.Load()
	for i := next - uint64(min(n, l.len())); i < next; i++ {
		bytes += l.at(i).size()
	}
	return bytes
}

// within returns how many of the last messages are at most so many bytes together.
func (l *log) within(bytes int) (n int) {
	for next := l.next.Load(); n < l.len(); n++ {
		if bytes -= l.at(next - uint64(n) - 1).size(); bytes < 0 {
			return n
		}
	}
	return n
}

// share is how much of its queue Offer fills before it waits.
func (s *Subscription) share() int { return (int(s.limit) + 1) / 2 }

// unread returns how many messages wait for s. If it cannot have all of them, those before a gap do
// not count: it is not to blame for that, and is waited for behind it. The caller holds the log's
// lock.
func (s *Subscription) unread(next uint64) int {
	if s.policy == DropNewest {
		return len(s.extra.own)
	}
	unread := int(next - s.at)
	if s.overrun(unread) {
		unread = min(unread, int(next-s.group.log.gap))
	}
	return unread
}

// overrun reports whether so many messages are more than s can have.
func (s *Subscription) overrun(unread int) bool {
	return s.policy != DropNewest && (unread > int(s.limit) || unread > s.group.log.len())
}

package pubsub

// Remaining is Next for a subscriber that is about to end because its loop stops
// (loop.Loop.Stopping). It returns messages that were published before a subscriber of the loop to
// the same topic, or pattern, first called Remaining: subscribers may publish when they end, and
// those that end later do not get these messages, although the topic may forget older messages for
// them. A subscriber with Disconnect that has missed a message gets nil, and no ErrLagged. In a
// queue group Remaining is Next.
func (s *Subscription) Remaining() *Message {
	g := s.group
	if g == nil || g.log.shared() {
		return s.Next()
	}
	g.loop.Layer().Check()
	l := g.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.remainingEnd == 0 {
		g.remainingEnd = l.next.Load()
		for o := l.dropNewest; o != nil; o = o.extra.queue.next {
			if o.group == g {
				o.extra.queue.end = o.at + uint64(len(o.extra.messages))
			}
		}
	}
	if !s.ready() {
		return nil
	}
	if s.hasFirst() {
		return s.takeFirst()
	}
	if s.policy == DropNewest {
		if s.at >= s.extra.queue.end {
			return nil
		}
		return s.dequeue()
	}
	at := max(s.at, l.first, g.remainingEnd-uint64(s.limit))
	for at < g.remainingEnd && l.at(at) == nil { // it was lost
		at++
	}
	missed := int(at - s.at)
	if at >= g.remainingEnd || missed > 0 && s.policy == Disconnect {
		return nil
	}
	if missed > 0 {
		s.needExtra().dropped += missed
	}
	s.at = at + 1
	return l.at(at)
}

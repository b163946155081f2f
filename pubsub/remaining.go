package pubsub

// Remaining is Next for a subscriber that is about to end, because its loop stops
// (loop.Loop.Stopping). It returns what had been published when a subscriber of the loop to the
// same topic, or pattern, first called Remaining: what others publish at their ends is not for
// those that end after them, though it may make the topic forget what was. A subscriber with
// Disconnect that has missed something gets nothing, and no ErrLagged. In a queue group Remaining
// is Next.
func (s *Subscription) Remaining() *Message {
	g := s.group
	if g == nil || g.log.shared() {
		return s.Next()
	}
	g.loop.Check()
	l := g.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.end == 0 {
		g.end = l.next.Load()
		for o := l.dropNewest; o != nil; o = o.extra.queue.next {
			if o.group == g {
				o.extra.queue.end = o.at + uint64(len(o.extra.own))
			}
		}
	}
	if !s.ready() {
		return nil
	}
	if s.policy == DropNewest {
		if s.at >= s.extra.queue.end {
			return nil
		}
		return s.take()
	}
	at := max(s.at, l.first, g.end-uint64(s.limit))
	for at < g.end && l.at(at) == nil { // it was lost
		at++
	}
	missed := int(at - s.at)
	if at >= g.end || missed > 0 && s.policy == Disconnect {
		return nil
	}
	if missed > 0 {
		s.more().dropped += missed
	}
	s.at = at + 1
	return l.at(at)
}

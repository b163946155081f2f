package pubsub

// SendNext calls send with the next message, if exactly one is unread. It is called on the loop, in
// place of Ready and Next. send reports whether it has sent the message; it must not wait. SendNext
// returns true if the thread waits again, as after a Ready that is false. Otherwise the thread has
// to call Next.
func (s *Subscription) SendNext(send func(m *Message) bool) (waits bool) {
	if s.group != nil && s.byPosition() {
		l := s.group.log
		switch l.next.Load() - s.at {
		case 0:
		case 1:
			l.mu.Lock()
			if s.missed() > 0 {
				l.mu.Unlock()
				return false
			}
			m := l.at(s.at)
			l.mu.Unlock()
			if !send(m) {
				return false
			}
			l.mu.Lock()
			s.at++
			l.mu.Unlock()
		default:
			return false
		}
	}
	return !s.Ready()
}

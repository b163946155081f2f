package pubsub

// Pass has send take the message that is there, if it is the only one, on the loop, and in place of
// Ready and Next. send reports whether it has; it must not wait. The result is whether the thread
// waits again, as after a Ready that is false; else it has to look.
func (s *Subscription) Pass(send func(m *Message) bool) (waits bool) {
	if s.group != nil && s.plain() {
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

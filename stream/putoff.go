package stream

import "github.com/lwango/lwango/loop"

// PutOff has p, the last that the thread writes before it waits, go out with what others send in this
// turn of the loop, see loop.PutOff. It reports false, and has done nothing, if p is too long for that or
// cannot go out now, or if the thread's wait begins with another write. The sender finds out about errors
// by its next read.
func (s *Stream) PutOff(p []byte, by loop.Sender) bool {
	if len(p) > loop.PutOffSize || s.out.limited() || s.beginWrite() != nil ||
		s.duplex != nil && len(s.duplex.held) > 0 || loop.Holds(s.loop.Current()) {
		return false
	}
	s.sent += int64(len(p))
	s.out.Moved(s.loop, len(p))
	s.loop.PutOff(s.d, by, p)
	return true
}

// SendNow sends what was put off.
func (s *Stream) SendNow() { s.loop.SendNow(s.d) }

// Nudge wakes the thread that waits to read, as if something had come: for what loop.Sender has to do.
func (s *Stream) Nudge() { s.loop.Nudge(s.d) }

// Unsent implements loop.Sender, for Stream.PutOff: the thread that waits to read sends what is held.
func (d *Duplex) Unsent(rest []byte) {
	if d.s.duplex == d {
		d.hold(rest, nil)
		d.s.Nudge()
	}
}

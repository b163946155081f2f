package stream

import "github.com/lwango/lwango/loop"

// PutOff sends p at the end of this turn of the loop, together with what other threads put off, see
// LoopLayer.PutOff. p is the last that the thread writes before it waits. It counts as sent, and
// nothing overtakes it. PutOff returns false, and has done nothing, if p is too long for that or
// cannot be sent now, if the thread's wait begins with another write, or if the turn is so short
// that putting off gains nothing. If there is no room for p at the end of the turn, the thread's
// wait for input ends early, as if there were input: see Remainder.
func (s *Conn) PutOff(p []byte) bool {
	if !s.loop.Layer().MayPutOff() || len(p) > loop.PutOffSize || s.out.limited() ||
		s.checkWrite() != nil ||
		s.duplex != nil && len(s.duplex.held) > 0 || s.loop.Layer().Current().Layer().WillFlush() ||
		!s.loop.Layer().PutOff(s.d, p) {
		return false
	}
	s.sent += int64(len(p))
	s.out.Moved(s.loop, len(p))
	return true
}

// Remainder returns how many bytes of what was put off there was no room for. Until there is room,
// writes find none.
func (s *Conn) Remainder() int {
	if !s.d.HasRemainder() {
		return 0
	}
	return s.d.Remainder()
}

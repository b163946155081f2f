package stream

import "github.com/lwango/lwango/loop"

// WakeOnReady makes the loop wake the idle thread t when there is something to read, or room to
// write, as loop.Descriptor.WakeOnReady does. New or Dial has made the stream.
func (s *Conn) WakeOnReady(t *loop.Thread, read, write bool) (over bool) {
	s.loop.Layer().Check()
	return s.isClosed() || s.d.WakeOnReady(t, read, write)
}

// ResetBudget begins the turn's budget anew: the stream's thread has been idle.
func (s *Conn) ResetBudget() { s.spent, s.workUnits = 0, 0 }

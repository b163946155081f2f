package stream

import "github.com/lwango/lwango/loop"

// Wakes has the idle thread t called when there is something to read, or room to write, as
// loop.Descriptor.Wakes does. The stream is one that New or Dial has made.
func (s *Conn) Wakes(t *loop.Thread, read, write bool) (over bool) {
	s.loop.Check()
	return s.gone() || s.d.Wakes(t, read, write)
}

// Yielded begins the turn's budget anew: the stream's thread has been idle.
func (s *Conn) Yielded() { s.spent, s.worked = 0, 0 }

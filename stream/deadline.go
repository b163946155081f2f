package stream

import (
	"math"
	"net"
	"time"
)

// SetDeadline implements net.Conn.
func (s *Stream) SetDeadline(t time.Time) error {
	return s.setDeadlines(t, &s.readBy, &s.writeBy)
}

// SetReadDeadline implements net.Conn.
func (s *Stream) SetReadDeadline(t time.Time) error { return s.setDeadlines(t, &s.readBy) }

// SetWriteDeadline implements net.Conn.
func (s *Stream) SetWriteDeadline(t time.Time) error { return s.setDeadlines(t, &s.writeBy) }

func (s *Stream) setDeadlines(t time.Time, deadlines ...*instant) error {
	s.loop.Check()
	if s.gone() {
		return s.fail("set", net.ErrClosed)
	}
	by := instantOf(t)
	earlier := false
	for _, d := range deadlines {
		earlier = earlier || by.before(*d)
		*d = by
	}
	if earlier {
		s.loop.Rouse(s.d) // a wait that has begun is for the old one; that it ends late is seen when it ends
	}
	return nil
}

// instant is a point in time on the monotonic clock, in a third of a time.Time's size; 0 is none.
type instant int64

var epoch = time.Now()

func instantOf(t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	// Half of what there is leaves room to reckon with.
	if at := instant(min(max(t.Sub(epoch), math.MinInt64/2), math.MaxInt64/2)); at != 0 {
		return at
	}
	return -1
}

func (i instant) set() bool { return i != 0 }

func (i instant) passed() bool { return i.set() && i.left() <= 0 }

// before reports that i comes sooner than j; none is the last of all.
func (i instant) before(j instant) bool { return i != 0 && (j == 0 || i < j) }

// left returns how much time there is until then.
func (i instant) left() time.Duration { return time.Duration(i) - time.Since(epoch) }

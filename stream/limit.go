package stream

import (
	"fmt"
	"math"
	"net"
	"time"

	"github.com/lwango/lwango/loop"
)

// ErrTooSlow says that the peer has not kept the pace that SetPace demands. For errors.Is it is a
// loop.ErrDeadlineExceeded.
var ErrTooSlow = fmt.Errorf("peer is too slow: %w", loop.ErrDeadlineExceeded)

// Pace is the least that a peer must move in one direction while that direction has no deadline.
// Only the time in which the stream waits for the peer counts. The zero Pace demands nothing.
type Pace struct {
	Idle    time.Duration // a byte must move within this time; 0 or negative: no limit
	MinRate int           // bytes per second; 0 or negative: none
	Grace   time.Duration // the rate counts after this much waited time

	// Window is the waited time over which the rate is measured. It has two halves. When the newer
	// half is full, the older one is dropped. So an early burst does not count for long, and the
	// rate covers at least half of the window.
	Window time.Duration

	// MaxRate is the most that the stream itself moves, in bytes per second; 0 or negative: no
	// limit. It is for writes: the stream writes a small part of a second's bytes and then lets its
	// thread sleep, or, in a Duplex, holds the rest. That time is not waited time.
	MaxRate int64
	Free    int64   // so many bytes move before MaxRate counts; it falls as they do
	next    instant // with MaxRate: no byte may move before

	bytes        int64         // moved, in all
	silence      time.Duration // waited since the last byte, without a deadline
	since        instant       // what was waited before is counted; 0: the peer keeps nobody waiting
	movedOffLoop time.Duration // by loop.Now: when a byte last moved off the loop since; 0: none
	resets       *Pace         // whose silence a byte ends, too; nil: none, see ResetSilenceOf

	// The newer half of the window, and the older.
	waited, waitedBefore time.Duration
	from, fromBefore     int64 // bytes when they began
}

// ResetSilenceOf makes each byte that moves from now on end the silence of other, too, which is the
// peer's other direction: a peer that takes what we send is not silent. nil ends that.
func (p *Pace) ResetSilenceOf(other *Pace) { p.resets = other }

// Silent reports that the peer has moved no byte for Idle. The pace may demand a rate, too.
func (p *Pace) Silent() bool { return p.Idle > 0 && p.silence >= p.Idle }

// Exceeded reports that the peer is too slow.
func (p *Pace) Exceeded() bool {
	_, err := p.left()
	return err != nil
}

// Waited reports whether the peer has kept the stream waiting.
func (p *Pace) Waited() bool { return p.waited+p.waitedBefore > 0 }

// Bytes returns how many bytes have moved.
func (p *Pace) Bytes() int64 { return p.bytes }

// left returns how long a wait may take; negative: without limit.
func (p *Pace) left() (time.Duration, error) {
	waited := p.waitedBefore + p.waited
	switch {
	case p.MinRate > 0 && waited > p.Grace &&
		float64(p.bytes-p.fromBefore) < float64(p.MinRate)*waited.Seconds():
		return 0, ErrTooSlow
	case p.Idle <= 0:
		return -1, nil
	case p.silence >= p.Idle:
		return 0, ErrTooSlow
	}
	return p.Idle - p.silence, nil
}

// Limit is how long a peer may keep one direction waiting. A deadline takes the place of the pace.
// A Conn has two Limits. Code that carries several exchanges on one stream, as HTTP/2 does, has
// more of them. A Limit belongs to one loop. The zero Limit limits nothing.
type Limit struct {
	deadline instant
	pace     *Pace // nil: none
}

// Left returns how long a wait on lp may take; negative: without limit. The error is
// loop.ErrDeadlineExceeded or ErrTooSlow.
func (l *Limit) Left(lp *loop.Loop) (time.Duration, error) {
	if l.pace != nil && l.pace.since.set() {
		l.countWait(lp)
	}
	switch {
	case l.deadline.set():
		if d := l.deadline.left(lp); d > 0 {
			return d, nil
		}
		return 0, loop.ErrDeadlineExceeded
	case l.pace != nil:
		return l.pace.left()
	}
	return -1, nil
}

// Moved notes that n bytes have moved.
func (l *Limit) Moved(lp *loop.Loop, n int) {
	if p := l.pace; p != nil && n > 0 {
		if p.since.set() {
			l.countWait(lp)
		}
		p.bytes += int64(n)
		p.silence = 0
		if o := p.resets; o != nil {
			if o.silence = 0; o.since.set() {
				o.since = turnOf(lp)
			}
		}
		if p.Free >= int64(n) {
			p.Free -= int64(n)
		} else if p.MaxRate > 0 {
			n, p.Free = n-int(p.Free), 0
			// A thread that wakes up late may move more, by what catchUp allows.
			now := instant(lp.Layer().Clock(time.Now()))
			p.next = max(p.next, now-instant(catchUp)) + instant(int64(n)*1e9/p.MaxRate)
		}
	}
}

const (
	catchUp    = 50 * time.Millisecond
	leastPiece = 1 << 10 // bytes; below that a system call costs more than it moves
)

// limited reports whether there is a MaxRate.
func (l *Limit) limited() bool { return l.pace != nil && l.pace.MaxRate > 0 }

// Pause returns how long no byte may move because of MaxRate.
func (l *Limit) Pause(lp *loop.Loop) time.Duration {
	if !l.limited() {
		return 0
	}
	return max(l.pace.next.left(lp), 0)
}

// Piece returns how many bytes may move at once: a turn's budget, with MaxRate an eighth of a
// second's bytes, or those that are free.
func (l *Limit) Piece() int {
	if !l.limited() {
		return TurnBudget
	}
	return int(min(max(l.pace.MaxRate/8, leastPiece, l.pace.Free), TurnBudget))
}

// movedOffLoop is Moved for a goroutine off the loop, while a thread of the loop waits. The pace
// has no MaxRate.
func (l *Limit) movedOffLoop(n int) {
	if p := l.pace; p != nil && n > 0 {
		p.bytes += int64(n)
		p.movedOffLoop = loop.Now()
		if p.resets != nil {
			p.resets.movedOffLoop = p.movedOffLoop
		}
	}
}

// SawActivity notes that the peer was active at a time of lp's clock, although no byte has moved.
// So the peer has been silent since then at most.
func (l *Limit) SawActivity(lp *loop.Loop, at time.Duration) {
	if p := l.pace; p != nil {
		if p.since.set() {
			l.countWait(lp)
		}
		p.silence = min(p.silence, max(lp.Layer().Clock(lp.Time())-at, 0))
	}
}

// StartWait says that the peer keeps the caller waiting from now on, until StopWait. Bytes may move
// meanwhile, and with each the peer's silence begins anew. A second call has no effect.
func (l *Limit) StartWait(lp *loop.Loop) {
	if p := l.pace; p != nil && !p.since.set() {
		p.since = turnOf(lp)
	}
}

// StopWait says that the caller no longer waits for the peer.
func (l *Limit) StopWait(lp *loop.Loop) {
	if p := l.pace; p != nil && p.since.set() {
		l.countWait(lp)
		p.since = 0
	}
}

// Waiting reports whether StartWait was called, and StopWait was not.
func (l *Limit) Waiting() bool { return l.pace != nil && l.pace.since.set() }

// ResetWait discards the wait so far: the peer was still taking bytes that had moved before.
func (l *Limit) ResetWait(lp *loop.Loop) {
	if p := l.pace; p != nil {
		p.silence, p.movedOffLoop = 0, 0
		if p.since.set() {
			p.since = turnOf(lp)
		}
	}
}

// countWait adds the time since the last call to the waited time. The Limit has a pace, and the
// peer keeps the caller waiting.
func (l *Limit) countWait(lp *loop.Loop) {
	p, now := l.pace, turnOf(lp)
	d := time.Duration(max(now-p.since, 0)) // since may be later than the turn's beginning
	p.since = now
	if !l.deadline.set() {
		p.silence += d
	}
	if p.movedOffLoop != 0 {
		p.silence, p.movedOffLoop = min(p.silence, loop.Now()-p.movedOffLoop), 0
	}
	if p.waited += d; p.waited >= p.Window/2 {
		p.waitedBefore, p.fromBefore = p.waited, p.from
		p.waited, p.from = 0, p.bytes
	}
}

// SetPace sets the pace that the peer must keep; nil: none. The caller may assign a new Pace to *p
// at any time, and then the count begins anew.
func (l *Limit) SetPace(p *Pace) { l.pace = p }

// SetDeadline sets the time at which waits for the peer end; the zero time: none.
func (l *Limit) SetDeadline(lp *loop.Loop, t time.Time) { l.deadline = instantOf(lp, t) }

// Timed reports whether a deadline takes the place of the pace.
func (l *Limit) Timed() bool { return l.deadline.set() }

// Expired reports whether the deadline has passed.
func (l *Limit) Expired(lp *loop.Loop) bool { return l.deadline.passed(lp) }

// SetPace sets the pace that the peer must keep in each direction; nil: none. The stream counts in
// the two Paces. The caller may assign a new Pace to either at any time, and then its count begins
// anew.
func (s *Conn) SetPace(read, write *Pace) { s.in.pace, s.out.pace = read, write }

// ReadExpired reports whether the deadline of reads has passed.
func (s *Conn) ReadExpired() bool { return s.in.deadline.passed(s.loop) }

// SetDeadline implements net.Conn.
func (s *Conn) SetDeadline(t time.Time) error {
	err := s.setDeadline(&s.in, t)
	if err == nil {
		err = s.setDeadline(&s.out, t)
	}
	return err
}

// SetReadDeadline implements net.Conn.
func (s *Conn) SetReadDeadline(t time.Time) error { return s.setDeadline(&s.in, t) }

// SetWriteDeadline implements net.Conn.
func (s *Conn) SetWriteDeadline(t time.Time) error { return s.setDeadline(&s.out, t) }

// DropReadDeadline is SetReadDeadline of the zero time. It costs next to nothing.
func (s *Conn) DropReadDeadline() { s.in.deadline = 0 }

// DropWriteDeadline is SetWriteDeadline of the zero time. It costs next to nothing.
func (s *Conn) DropWriteDeadline() { s.out.deadline = 0 }

func (s *Conn) setDeadline(l *Limit, t time.Time) error {
	s.loop.Layer().Check()
	if s.isClosed() {
		return s.opError("set", net.ErrClosed)
	}
	by := instantOf(s.loop, t)
	earlier := by.before(l.deadline)
	l.deadline = by
	if earlier {
		// A wait that has begun would last until the old deadline, which is too late. If the new
		// deadline is later, the wait sees it when the old one has passed.
		s.loop.Layer().WakeWaiters(s.d)
	}
	return nil
}

// instant is a point in time on the clock of the stream's loop; 0: none. Its size is a third of a
// time.Time's.
type instant int64

func instantOf(lp *loop.Loop, t time.Time) instant {
	if t.IsZero() {
		return 0
	}
	// Half of the range leaves room for arithmetic.
	if at := instant(min(max(lp.Layer().Clock(t), math.MinInt64/2), math.MaxInt64/2)); at != 0 {
		return at
	}
	return -1
}

// turnOf returns when the loop's turn has begun.
func turnOf(lp *loop.Loop) instant {
	return max(instant(lp.Layer().Clock(lp.Time())), 1)
}

func (i instant) set() bool { return i != 0 }

func (i instant) passed(lp *loop.Loop) bool { return i.set() && i.left(lp) <= 0 }

// before reports whether i is earlier than j. 0 counts as later than all.
func (i instant) before(j instant) bool { return i != 0 && (j == 0 || i < j) }

// left returns how much time there is until i.
func (i instant) left(lp *loop.Loop) time.Duration {
	return time.Duration(i) - lp.Layer().Clock(time.Now())
}

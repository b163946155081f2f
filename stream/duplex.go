package stream

import (
	"syscall"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Duplex is a mode in which both directions of a stream move at once, for code that passes on bytes
// both ways. Only Await waits. A read that would wait returns ErrWouldBlock. A write sends as much
// as there is room for, and the Duplex holds the rest. The writer must bound what is held: it does
// not write more until SendHeld reports that nothing is left.
//
// Conn.Duplex begins the mode, and End ends it. The methods are for one thread of the stream's
// loop.
type Duplex struct {
	s                  *Conn
	held               []byte
	offLoop            bool
	readable, writable *loop.Readiness
	sources            []loop.Source
}

// heldBuffer is the largest buffer that an empty Duplex keeps. Larger ones are seldom needed twice.
const heldBuffer = 4 << 10

// Duplex lets both directions move at once from now on, until Duplex.End. The old value of d does
// not matter. With nil it ends the mode without a wait, and what is held is not written.
func (s *Conn) Duplex(d *Duplex) {
	if s.duplex = d; d != nil {
		*d = Duplex{s: s}
	}
}

// End ends the mode and writes what is held, waiting as Write does. The error has no net.OpError
// around it.
func (d *Duplex) End() error {
	d.s.duplex = nil
	held := d.held
	d.held = nil
	if len(held) == 0 {
		return nil
	}
	_, err := d.s.Send(held, nil, false)
	return err
}

// SetOffLoop says whether the calls of Send and TryRead that follow come from a goroutine off the
// loop. The stream's thread must be in Await meanwhile, and must not return from it: the caller
// holds a lock that Unwatch of one of Await's sources takes. Nothing may be held, and the stream
// must have no MaxRate. These calls ignore the stream's deadlines, and do not fail: the Duplex
// holds what cannot be sent, and a read that cannot go on returns ErrWouldBlock. The thread's next
// call returns the error.
func (d *Duplex) SetOffLoop(on bool) { d.offLoop = on }

// sendOffLoop is Send on another goroutine.
func (d *Duplex) sendOffLoop(a, b []byte) int {
	total := len(a) + len(b)
	for len(a)+len(b) > 0 {
		if len(a) == 0 {
			a, b = b, nil
		}
		var n int
		var errno syscall.Errno
		if len(b) == 0 {
			n, errno = d.s.d.SendOffLoop(a)
		} else {
			n, errno = d.s.d.SendvOffLoop(a, b)
		}
		if errno != 0 {
			d.hold(a, b)
			break
		}
		d.s.out.movedOffLoop(n)
		k := min(n, len(a))
		a, b = a[k:], b[n-k:]
	}
	return total
}

// readOffLoop is TryRead on another goroutine.
func (d *Duplex) readOffLoop(p []byte) (int, error) {
	n, errno := d.s.d.RecvOffLoop(p)
	if errno != 0 || n == 0 {
		return 0, ErrWouldBlock
	}
	d.s.in.movedOffLoop(n)
	return n, nil
}

// Unread reports whether there may be more to read: the last read has not emptied the socket.
func (d *Duplex) Unread() bool { return d.s.d.Unread() }

// Held returns how many bytes are held. Those that were put off are not among them, see
// Conn.Remainder.
func (d *Duplex) Held() int { return len(d.held) }

// hold keeps a and b for SendHeld. A read of a TLS connection may call it, too: if the peer changes
// keys again and again, crypto/tls answers each such record with some bytes, until the limit of
// writes has passed.
func (d *Duplex) hold(a, b []byte) { d.held = append(append(d.held, a...), b...) }

// SendHeld writes as much as there is room for of what was put off, and then of what is held. It
// returns how many bytes are still held. The error is that of a system call, or of a limit that has
// passed; then the rest is dropped.
func (d *Duplex) SendHeld() (left int, err error) {
	s, held := d.s, d.held
	for (len(held) > 0 || s.d.HasRemainder()) && err == nil && s.out.Pause(s.loop) == 0 {
		n, errno := s.d.Send(held[:min(len(held), s.out.Piece())], false)
		if errno == unix.EAGAIN {
			_, err = s.out.Left(s.loop)
			break
		}
		err = s.afterWrite(n, errno)
		held = held[n:]
	}
	if err != nil {
		held = nil
	}
	if d.held = d.held[:copy(d.held, held)]; len(held) == 0 && cap(d.held) > heldBuffer {
		d.held = nil
	}
	return len(held), err
}

// Await waits until one of the sources is ready, for limit at most; negative: without limit. It
// also returns when there may be something to read, if read is set, and when there may be room, if
// something is held. The stream's own limit for either ends the wait as well, and the next read or
// SendHeld returns its error.
//
// The error is loop.ErrDeadlineExceeded after limit, or one of AwaitAny's.
func (d *Duplex) Await(limit time.Duration, read bool, sources ...loop.Source) error {
	s := d.s
	t := s.loop.Layer().Current()
	if t == nil {
		return errNoThread
	}
	if d.readable == nil { // only now: most peers take what is written at once
		d.readable, d.writable = s.d.Readable(), s.d.Writable()
	}
	least, write := limit, len(d.held) > 0 || s.d.HasRemainder()
	d.sources = append(d.sources[:0], sources...)
	if read {
		left, err := s.in.Left(s.loop)
		if err != nil {
			return nil
		}
		least, d.sources = shorter(least, left), append(d.sources, d.readable)
	}
	if pause := s.out.Pause(s.loop); write && pause > 0 {
		least, write = shorter(least, pause), false // it waits for the time, not for room
	}
	if write {
		left, err := s.out.Left(s.loop)
		if err != nil {
			return nil
		}
		least, d.sources = shorter(least, left), append(d.sources, d.writable)
	}
	if read {
		s.in.StartWait(s.loop)
	}
	if write {
		s.out.StartWait(s.loop)
	}
	_, err := t.AwaitAny(least, d.sources...)
	s.spent, s.workUnits = 0, 0
	s.in.StopWait(s.loop)
	s.out.StopWait(s.loop)
	if err == loop.ErrDeadlineExceeded && least != limit {
		return nil // the stream's own limit: the next call finds it passed if no byte has moved
	}
	return err
}

// shorter returns the shorter of two limits; negative: none.
func shorter(a, b time.Duration) time.Duration {
	if a < 0 || 0 <= b && b < a {
		return b
	}
	return a
}

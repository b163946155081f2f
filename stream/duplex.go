package stream

import (
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// Duplex is a time in which both directions of a stream move at once. Code that passes both on needs
// it: nothing waits but Await. Reads return ErrWouldBlock where they would wait. What is written goes
// out as far as the peer has room for it, and the rest is held. The writer must bound what is held: it
// writes no more until SendHeld says that nothing is left.
//
// Stream.Duplex begins it, and End ends it. Methods are for one thread of the stream's loop.
type Duplex struct {
	s                  *Stream
	held               []byte
	readable, writable *loop.Readiness
	sources            []loop.Source
}

// heldBuffer is how large a buffer may be that is kept for what will be held next; it is seldom needed twice.
const heldBuffer = 4 << 10

// Duplex begins such a time, with whatever value d has. nil ends one without a wait, and what is held
// is not written.
func (s *Stream) Duplex(d *Duplex) {
	if s.duplex = d; d != nil {
		*d = Duplex{s: s}
	}
}

// End ends it. What is held is written first, and End waits for that as Write does. The error has no
// net.OpError around it.
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

// Held returns how many bytes are held.
func (d *Duplex) Held() int { return len(d.held) }

// hold keeps a and b for SendHeld. TLS writes where it reads, too, when its peer changes keys: some
// bytes for each record that comes, until the limit of writes has passed.
func (d *Duplex) hold(a, b []byte) { d.held = append(append(d.held, a...), b...) }

// SendHeld writes what is held, as far as there is room, and returns how many bytes are left. On an
// error, that of a system call or of a limit that has passed, the rest is dropped.
func (d *Duplex) SendHeld() (left int, err error) {
	s, held := d.s, d.held
	for len(held) > 0 && err == nil {
		n, errno := s.d.Send(held[:min(len(held), TurnBudget)], false)
		if errno == unix.EAGAIN {
			_, err = s.out.left()
			break
		}
		err = s.wrote(n, errno)
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

// Await waits until one of the sources is ready, at most limit (negative: without limit); with read,
// until there is perhaps something to read; and where something is held, until there is perhaps room
// for it. A limit of the stream's own for one of these two ends the wait as well, and the next read,
// or SendHeld, returns its error.
//
// The error is os.ErrDeadlineExceeded after limit, or one of AwaitAny's.
func (d *Duplex) Await(limit time.Duration, read bool, sources ...loop.Source) error {
	s := d.s
	t := s.loop.Current()
	if t == nil {
		return errNoThread
	}
	if d.readable == nil { // most peers take what is written without a wait for it
		d.readable, d.writable = s.d.Readable(), s.d.Writable()
	}
	least, write := limit, len(d.held) > 0
	d.sources = append(d.sources[:0], sources...)
	if read {
		left, err := s.in.left()
		if err != nil {
			return nil
		}
		least, d.sources = shorter(least, left), append(d.sources, d.readable)
	}
	if write {
		left, err := s.out.left()
		if err != nil {
			return nil
		}
		least, d.sources = shorter(least, left), append(d.sources, d.writable)
	}
	before := s.loop.Time()
	_, err := t.AwaitAny(least, d.sources...)
	s.spent = 0
	waited := s.loop.Time().Sub(before)
	if read {
		s.in.waited(waited)
	}
	if write {
		s.out.waited(waited)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && least != limit {
		return nil // the stream's own limit, which the next call finds passed unless something has moved
	}
	return err
}

// shorter is the shorter one of two limits.
func shorter(a, b time.Duration) time.Duration {
	if a < 0 || 0 <= b && b < a {
		return b
	}
	return a
}

package loop

import (
	"net"
	"os"
)

// Readiness is a Source that is ready when a descriptor can be read, or written, or has hung up. If
// CloseFD closes the descriptor meanwhile, AwaitAny and AwaitAll return net.ErrClosed with the
// index of the Readiness.
type Readiness struct {
	d      *Descriptor // nil before the first Watch of a number
	fd     int
	number bool // d is looked up by fd at each Watch
	events uint16
	file   *os.File // nil, or what must not be collected, and closed, during a wait
}

// Readable returns a source that is ready when fd can be read. It can be used again and again.
// AwaitRead says what holds for fd.
func Readable(fd int) *Readiness { return &Readiness{fd: fd, number: true, events: in} }

// Writable returns a source that is ready when fd can be written; see Readable.
func Writable(fd int) *Readiness { return &Readiness{fd: fd, number: true, events: out} }

// ReadableFile returns a source that is ready when f, a pipe or the like, can be read: then f.Read
// returns what there is, and does not wait. AwaitRead says what else holds for f's descriptor. If f
// is closed, nothing can wait for the source.
func ReadableFile(f *os.File) *Readiness {
	return &Readiness{fd: -1, number: true, events: in, file: f}
}

// Readable returns a source that is ready when d can be read. It can be used again and again.
func (d *Descriptor) Readable() *Readiness { return &Readiness{d: d, events: in} }

// Writable returns a source that is ready when d can be written.
func (d *Descriptor) Writable() *Readiness { return &Readiness{d: d, events: out} }

// Watch implements Source. Its errors are those of AwaitRead.
func (r *Readiness) Watch(t *Thread) error {
	if r.file != nil { // closed since the last wait, it may have left its number to another one
		r.fd = -1
		if c, err := r.file.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { r.fd = int(fd) })
		}
	}
	if r.number {
		if r.fd < 0 || r.fd != int(t.own.fd) {
			s, err := t.loop.registerRawFD(t, r.fd, r.events)
			if err != nil {
				return err
			}
			r.d = &s.Descriptor
			return nil
		}
		r.d = &t.own
	}
	switch d := r.d; {
	case d == &t.own:
		if t.wants&uint8(r.events) != 0 {
			return ErrAwaited
		}
		t.wants |= uint8(r.events)
		d.flags |= mask(r.events)
	case d.flags&shared == 0:
		return ErrAwaited
	default:
		if err := d.asShared().claim(t, r.events); err != nil {
			return err
		}
	}
	t.loop.arm(r.d)
	return nil
}

// Ready implements Source.
func (r *Readiness) Ready() bool { return !r.d.edges.armed(r.events) }

// Unwatch implements Source.
func (r *Readiness) Unwatch(t *Thread) {
	if r.d == &t.own {
		t.wants &^= uint8(r.events)
	} else {
		r.d.asShared().release(r.events)
	}
}

// gone returns net.ErrClosed if s waits for a descriptor that was closed.
func gone(s Source) error {
	if r, ok := s.(*Readiness); ok && r.d.fd < 0 {
		return net.ErrClosed
	}
	return nil
}

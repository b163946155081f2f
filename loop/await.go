package loop

import (
	"errors"
	"net"
	"os"
	"slices"
	"time"

	"github.com/lwango/lwango/coro"
	"golang.org/x/sys/unix"
)

// ErrAwaited is returned when a descriptor is already waited for on the same loop, or is the thread's own, for which
// there is WantRead. Across loops that cannot be seen: two loops that await one descriptor are both told.
var ErrAwaited = errors.New("descriptor is awaited already")

var errTimeout = os.ErrDeadlineExceeded

// AwaitRead waits until fd, which is not the thread's own, can be read or has hung up, at most d; negative d: without
// limit. The error is os.ErrDeadlineExceeded, ErrClientGone, ErrCanceled, ErrAwaited, net.ErrClosed where CloseFD has
// closed the descriptor meanwhile, or epoll_ctl's: EBADF, or EPERM for what cannot be waited for, such as a regular
// file.
//
// The descriptor stays with the loop, on loan, until deferred calls are run, which a Request does at its end. A wait
// costs no system call where the last ReadFD or RecvFD came to the end of what there was; else it is one, with which
// the kernel is asked to look. Close it with CloseFD: after a plain close nothing ends a wait that has begun but its
// limit, and where the number is given to another descriptor meanwhile, the loop takes it for the old one, and may
// find out only after a tenth of a second.
func (t *Thread) AwaitRead(fd int, d time.Duration) error { return t.awaitFD(fd, in, d) }

// AwaitWrite waits until fd can be written or has hung up; see AwaitRead.
func (t *Thread) AwaitWrite(fd int, d time.Duration) error { return t.awaitFD(fd, out, d) }

// AwaitReadWrite waits until fd can be read or written or has hung up; see AwaitRead.
func (t *Thread) AwaitReadWrite(fd int, d time.Duration) error { return t.awaitFD(fd, in|out, d) }

func (t *Thread) awaitFD(fd int, events uint16, d time.Duration) error {
	t.flush()
	if err := t.refused(); err != nil {
		return err
	}
	l := t.loop
	l.tick() // what the thread did before may have taken its time
	until := l.after(d)
	loan, known, err := l.borrow(t, fd, events)
	if err != nil {
		return err
	}
	if known {
		err = t.await(loan, events, min(until, l.now+trust))
		if err != errTimeout || l.now >= until {
			return err
		}
		if err := t.refused(); err != nil {
			return err
		}
		if err := l.claim(t, loan, events); err != nil {
			return err
		}
		if err := l.renew(loan); err != nil {
			l.release(loan, events)
			return err
		}
	}
	return t.await(loan, events, until)
}

// trust is how long, in milliseconds, a wait for a borrowed descriptor that has cost no system call goes on before the
// loop makes sure that it is the one that epoll was told of. Whoever opened it can have closed it since, and then
// nothing would ever come.
const trust = 100

// renew tells epoll anew what is wanted of a borrowed descriptor, which may be another than the one that it knows.
func (l *Loop) renew(d *Descriptor) error {
	if d.flags&hungUp != 0 {
		return nil // it is out of epoll, and nobody is going to wait
	}
	err := l.modify(d, d.known|d.flags.wanted())
	if errors.Is(err, unix.ENOENT) {
		l.forget(d)
		err = l.add(d)
	}
	if err != nil {
		l.evict(d)
	}
	return err
}

// borrow claims fd for t and has epoll tell the events. known reports that it was going to, to the best of our
// knowledge, and was not asked.
func (l *Loop) borrow(t *Thread, fd int, events uint16) (d *Descriptor, known bool, err error) {
	d = l.lookup(fd)
	if d != nil && d.flags&borrowed == 0 {
		return nil, false, ErrAwaited
	}
	if d != nil && d.flags&hungUp != 0 && d.flags.wanted()&(in|out) == 0 {
		l.forget(d) // it is not in epoll any more, and the number may be another's by now
		d = nil
	}
	if d == nil {
		d = &Descriptor{thread: t, fd: int32(fd), flags: lent | borrowed | mask(events)}
		if err := l.add(d); err != nil {
			return nil, false, err
		}
		t.keep(d)
		return d, false, nil
	}
	before := d.thread
	if err := l.claim(t, d, events); err != nil {
		return nil, false, err
	}
	if before != t {
		t.keep(d)
	}
	if d.armed&events == events {
		return d, true, nil
	}
	if err := l.renew(d); err != nil {
		l.release(d, events)
		return nil, false, err
	}
	return d, false, nil
}

// keep has the loan ended with the other deferred calls.
func (t *Thread) keep(d *Descriptor) {
	m := t.extra()
	switch n := len(m.loans); {
	case n == 0:
		t.Defer(t.giveBack)
	case slices.Contains(m.loans, d):
		return
	case n == cap(m.loans): // a thread may open and close descriptors for ever: what has ended must not pile up
		m.loans = slices.DeleteFunc(m.loans, func(d *Descriptor) bool {
			return t.loop.lookup(int(d.fd)) != d || d.thread != t && d.flags&split == 0
		})
	}
	m.loans = append(m.loans, d)
}

// giveBack ends t's loans, but those that another thread has taken over.
func (t *Thread) giveBack() {
	for _, d := range t.more.loans {
		if d.thread == t && d.flags&split == 0 && t.loop.lookup(int(d.fd)) == d {
			t.loop.remove(d)
			t.loop.forget(d)
		}
	}
	clear(t.more.loans)
	t.more.loans = t.more.loans[:0]
}

// CloseFD closes a descriptor that threads have awaited. A thread that waits for it gets net.ErrClosed. ErrAwaited
// means that it is a thread's own, or a stream's, and was not closed.
func (t *Thread) CloseFD(fd int) error {
	if d := t.loop.lookup(fd); d != nil {
		if d.flags&borrowed == 0 {
			return ErrAwaited
		}
		t.loop.remove(d)
		t.loop.evict(d)
	}
	return os.NewSyscallError("close", unix.Close(fd))
}

// await waits for the events of d, which t has claimed, and ends the claim.
func (t *Thread) await(d *Descriptor, events uint16, until int64) error {
	defer t.loop.release(d, events) // also when the thread is killed
	err := t.wait(coro.Make(awaitCode[events], int(d.fd)), until)
	if d.fd < 0 {
		return net.ErrClosed
	}
	return err
}

// Readiness is a Source that is ready when a descriptor can be read, or written, or has hung up. AwaitAny and AwaitAll
// return net.ErrClosed with its index when CloseFD has closed the descriptor under it.
type Readiness struct {
	d      *Descriptor // nil before the first watch of a number
	fd     int
	number bool // d is what the loop knows of fd at present
	known  bool // the watch has cost no system call
	events uint16
}

// Readable returns a source that waits until fd can be read. It can be used again and again.
func Readable(fd int) *Readiness { return &Readiness{fd: fd, number: true, events: in} }

// Writable returns a source that waits until fd can be written.
func Writable(fd int) *Readiness { return &Readiness{fd: fd, number: true, events: out} }

// Readable returns a source that waits until d can be read.
func (d *Descriptor) Readable() *Readiness { return &Readiness{d: d, events: in} }

// Writable returns a source that waits until d can be written.
func (d *Descriptor) Writable() *Readiness { return &Readiness{d: d, events: out} }

// Watch implements Source. Its errors are those of AwaitRead.
func (r *Readiness) Watch(t *Thread) (err error) {
	r.known = false
	if r.number {
		if r.fd < 0 || r.fd != int(t.own.fd) {
			r.d, r.known, err = t.loop.borrow(t, r.fd, r.events)
			return err
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
	case d.flags&lent == 0:
		return ErrAwaited
	default:
		if err := t.loop.claim(t, d, r.events); err != nil {
			return err
		}
	}
	t.loop.arm(r.d)
	return nil
}

// Ready implements Source.
func (r *Readiness) Ready() bool { return r.d.fired(r.events) }

// Unwatch implements Source.
func (r *Readiness) Unwatch(t *Thread) {
	if r.d == &t.own {
		t.wants &^= uint8(r.events)
	} else {
		t.loop.release(r.d, r.events)
	}
}

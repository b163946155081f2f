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

// ErrAwaited is returned when a descriptor is already waited for on the same loop, or is the thread's own, for which there
// is WantRead. Across loops that cannot be seen: two loops that await one descriptor are both told.
var ErrAwaited = errors.New("descriptor is awaited already")

var errTimeout = os.ErrDeadlineExceeded

// AwaitRead waits until fd, which is not the thread's own, can be read or has hung up, at most d; negative d: without
// limit. The error is os.ErrDeadlineExceeded, ErrClientGone, ErrCanceled, ErrAwaited, net.ErrClosed where the descriptor
// was closed meanwhile, or epoll_ctl's: EBADF, or EPERM for what cannot be waited for, such as a regular file.
//
// The descriptor stays with the loop, on loan, until deferred calls are run, which a Request does at its end. A wait
// costs no system call where the last ReadFD or RecvFD came to the end of what there was; else it is one, with which
// the kernel is asked to look. Close it with CloseFD, or the loop takes it for the old one when its number is given to
// another, and finds out only after a while.
func (t *Thread) AwaitRead(fd int, d time.Duration) error { return t.awaitFD(fd, in, d) }

// AwaitWrite waits until fd can be written.
func (t *Thread) AwaitWrite(fd int, d time.Duration) error { return t.awaitFD(fd, out, d) }

// AwaitReadWrite waits until fd can be read or written.
func (t *Thread) AwaitReadWrite(fd int, d time.Duration) error { return t.awaitFD(fd, in|out, d) }

func (t *Thread) awaitFD(fd int, events uint16, d time.Duration) error {
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
	if !known {
		return t.await(loan, events, until)
	}
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
	if err := l.check(loan); err != nil {
		l.release(loan, events)
		return err
	}
	return t.await(loan, events, until)
}

// trust is how long, in milliseconds, a wait for a borrowed descriptor that has cost no system call goes on before the
// loop makes sure that it is the one that epoll was told of. Whoever opened it can have closed it since, and then nothing
// would ever come.
const trust = 100

// check asks epoll whether it still knows a borrowed descriptor, and tells it if it does not.
func (l *Loop) check(d *Descriptor) error {
	if d.fd < 0 {
		return net.ErrClosed
	}
	if d.flags&hungUp != 0 {
		return nil // it is out of epoll, and nobody is going to wait
	}
	err := l.modify(d, d.known)
	if errors.Is(err, unix.ENOENT) {
		l.forget(d)
		err = l.add(d)
	}
	if err != nil {
		l.forget(d)
		d.flags |= hungUp // out of epoll
	}
	return err
}

// borrow claims fd for t, for the events. known reports that epoll will tell them, to the best of our knowledge, and need
// not be asked.
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
	return d, d.armed&events == events, nil
}

// keep has the loan ended with the other deferred calls.
func (t *Thread) keep(d *Descriptor) {
	m := t.extra()
	if len(m.loans) == 0 {
		t.Defer(t.giveBack)
	}
	if !slices.Contains(m.loans, d) {
		m.loans = append(m.loans, d)
	}
}

// giveBack ends t's loans, but those that another thread has taken over.
func (t *Thread) giveBack() {
	for i, d := range t.more.loans {
		t.more.loans[i] = nil
		if d.thread == t && d.fd >= 0 && d.flags&split == 0 {
			if t.loop.lookup(int(d.fd)) == d {
				t.loop.remove(d)
				t.loop.forget(d)
			}
		}
	}
	t.more.loans = t.more.loans[:0]
}

// CloseFD closes a descriptor that threads have awaited. A thread that waits for it gets net.ErrClosed. ErrAwaited means
// that it is a thread's own, or a stream's, and was not closed.
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

// await waits for the events of d, which t has claimed.
func (t *Thread) await(d *Descriptor, events uint16, until int64) error {
	m := t.extra()
	m.awaited, m.events = d, events
	err := t.wait(coro.Make(awaitCode[events], int(d.fd)), until)
	m.awaited = nil
	t.loop.release(d, events)
	if d.fd < 0 {
		return net.ErrClosed
	}
	return err
}

// Readiness is a Source that is ready when a descriptor can be read, or written, or has hung up.
type Readiness struct {
	fd     int // -1: d is given
	d      *Descriptor
	events uint16
	known  bool // the watch has cost no system call
}

// Readable returns a source that waits until fd can be read. It can be used again and again.
func Readable(fd int) *Readiness { return &Readiness{fd: fd, events: in} }

// Writable returns a source that waits until fd can be written.
func Writable(fd int) *Readiness { return &Readiness{fd: fd, events: out} }

// Readable returns a source that waits until d can be read.
func (d *Descriptor) Readable() *Readiness { return &Readiness{fd: -1, d: d, events: in} }

// Writable returns a source that waits until d can be written.
func (d *Descriptor) Writable() *Readiness { return &Readiness{fd: -1, d: d, events: out} }

// Watch implements Source. Its errors are those of AwaitRead.
func (r *Readiness) Watch(t *Thread) (err error) {
	if r.fd >= 0 {
		if r.fd == int(t.own.fd) {
			r.d = &t.own
		} else if r.d, r.known, err = t.loop.borrow(t, r.fd, r.events); err != nil {
			return err
		}
	}
	if d := r.d; d.flags&lent == 0 {
		if d != &t.own || t.extra().ownEvents&r.events != 0 {
			return ErrAwaited
		}
		t.more.ownEvents |= r.events
		d.flags |= mask(r.events)
	} else if r.fd < 0 {
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
	if r.d.flags&lent == 0 {
		t.more.ownEvents &^= r.events
	} else {
		t.loop.release(r.d, r.events)
	}
}

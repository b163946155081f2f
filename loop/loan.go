package loop

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

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
		if err != os.ErrDeadlineExceeded || l.now >= until {
			return err
		}
		if err := t.refused(); err != nil {
			return err
		}
		if err := loan.claim(t, events); err != nil {
			return err
		}
		if err := l.renew(loan); err != nil {
			loan.release(events)
			return err
		}
	}
	return t.await(loan, events, until)
}

// trust is how long, in milliseconds, a wait for a borrowed descriptor that has cost no system call goes on before the
// loop makes sure that it is the one that epoll was told of. Whoever opened it can have closed it since, and then
// nothing would ever come.
const trust = 100

// onTrust returns the loan that s waits for, if that wait has cost no system call; otherwise nil.
func onTrust(s Source) *Shared {
	if r, ok := s.(*Readiness); ok && r.known {
		return r.d.asShared()
	}
	return nil
}

// renew tells epoll anew what is wanted of a borrowed descriptor, which may be another than the one that it knows.
func (l *Loop) renew(d *Shared) error {
	if d.flags&hungUp != 0 {
		return nil // it is out of epoll, and nobody is going to wait
	}
	err := l.modify(&d.Descriptor, d.known|d.flags.wanted())
	if errors.Is(err, unix.ENOENT) {
		l.forget(&d.Descriptor)
		err = l.add(&d.Descriptor)
	}
	if err != nil {
		l.evict(&d.Descriptor)
	}
	return err
}

// borrow claims fd for t and has epoll tell the events. known reports that it was going to, to the best of our
// knowledge, and was not asked.
func (l *Loop) borrow(t *Thread, fd int, events uint16) (d *Shared, known bool, err error) {
	if old := l.lookup(fd); old != nil {
		if old.flags&borrowed == 0 {
			return nil, false, ErrAwaited
		}
		d = old.asShared()
	}
	if d != nil && d.flags&hungUp != 0 && d.flags.wanted()&(in|out) == 0 {
		l.forget(&d.Descriptor) // it is not in epoll any more, and the number may be another's by now
		d = nil
	}
	if d == nil {
		d = &Shared{Descriptor{thread: t, fd: int32(fd), flags: shared | borrowed | mask(events)}, t}
		if err := l.add(&d.Descriptor); err != nil {
			return nil, false, err
		}
		t.keep(d)
		return d, false, nil
	}
	before := d.thread
	if err := d.claim(t, events); err != nil {
		return nil, false, err
	}
	if before != t {
		t.keep(d)
	}
	if d.armed&events == events {
		return d, true, nil
	}
	if err := l.renew(d); err != nil {
		d.release(events)
		return nil, false, err
	}
	return d, false, nil
}

// keep has the loan ended with the other deferred calls.
func (t *Thread) keep(d *Shared) {
	m := t.extra()
	switch n := len(m.loans); {
	case n == 0:
		t.Defer(t.giveBack)
	case slices.Contains(m.loans, d):
		return
	case n == cap(m.loans): // a thread may open and close descriptors for ever: what has ended must not pile up
		m.loans = slices.DeleteFunc(m.loans, func(d *Shared) bool {
			return t.loop.lookup(int(d.fd)) != &d.Descriptor || d.thread != t && d.writer != t
		})
	}
	m.loans = append(m.loans, d)
}

// giveBack ends t's loans, but those that another thread has taken over.
func (t *Thread) giveBack() {
	for _, d := range t.more.loans {
		if d.thread == t && t.loop.lookup(int(d.fd)) == &d.Descriptor {
			t.loop.remove(&d.Descriptor)
			t.loop.forget(&d.Descriptor)
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

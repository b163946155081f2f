package loop

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitRead waits until fd can be read or has hung up, for d at most, or without limit if d is
// negative. fd must not be the thread's own descriptor. The error is ErrDeadlineExceeded,
// ErrClientGone, ErrCanceled, ErrAwaited, net.ErrClosed if CloseFD has closed the descriptor
// meanwhile, or that of epoll_ctl: EBADF, or EPERM for what epoll does not take, such as a regular
// file.
//
// The descriptor stays with the loop, on loan, until the thread's deferred calls run; a Request
// runs them when its handler has returned. A wait costs no system call if the last ReadFD or RecvFD
// found no more input; otherwise it costs one epoll_ctl. Close the descriptor with CloseFD. After a
// plain close, a wait that has begun returns only at its limit. If the number is then given to
// another descriptor, the loop takes that for the old one, and may find out only after a tenth of a
// second.
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
		if err != ErrDeadlineExceeded || l.now >= until {
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

// trust is how long, in milliseconds, a wait for a loan goes on that has cost no system call. Then
// the loop makes sure that epoll still knows the descriptor. The code that opened the descriptor
// may have closed it since the last wait, and then no event would ever come.
const trust = 100

// onTrust returns the loan that s waits for, if that wait has cost no system call, and otherwise
// nil.
func onTrust(s Source) *Shared {
	if r, ok := s.(*Readiness); ok && r.known {
		return r.d.asShared()
	}
	return nil
}

// renew tells epoll anew what is wanted of a loan. The number may be that of another descriptor by
// now.
func (l *Loop) renew(d *Shared) error {
	if d.flags&hungUp != 0 {
		return nil // it is out of epoll, and the wait is going to return at once
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

// borrow claims fd for t and arms the events. known reports that they were armed already, as far as
// the loop knows, so that epoll was not asked.
func (l *Loop) borrow(t *Thread, fd int, events uint16) (d *Shared, known bool, err error) {
	// If one rests there, its number must be another file's by now, or epoll_ctl fails.
	if old := l.lookup(fd); old != nil && old.flags&resting == 0 {
		if old.flags&borrowed == 0 {
			return nil, false, ErrAwaited
		}
		d = old.asShared()
	}
	if d != nil && d.flags&hungUp != 0 && d.flags.awaited() == 0 {
		l.forget(&d.Descriptor) // it is out of epoll, and its number may be another's by now
		d = nil
	}
	if d == nil {
		d = &Shared{
			Descriptor{thread: t, fd: int32(fd), flags: shared | borrowed | mask(events)}, t,
		}
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

// keep sees to it that t's deferred calls give the loan back.
func (t *Thread) keep(d *Shared) {
	m := t.extra()
	switch n := len(m.loans); {
	case n == 0:
		t.Defer(t.giveBack)
	case slices.Contains(m.loans, d):
		return
	case n == cap(m.loans): // a thread may use one descriptor after the other for ever
		m.loans = slices.DeleteFunc(m.loans, func(d *Shared) bool {
			return t.loop.lookup(int(d.fd)) != &d.Descriptor || d.thread != t && d.writer != t
		})
	}
	m.loans = append(m.loans, d)
}

// giveBack gives t's loans back, except those that another thread has taken over.
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

// CloseFD closes a descriptor that threads may have awaited. A thread that waits for it gets
// net.ErrClosed. If the error is ErrAwaited, the descriptor is a thread's own or a stream's, and
// was not closed.
func (t *Thread) CloseFD(fd int) error {
	if d := t.loop.lookup(fd); d != nil && d.flags&resting == 0 {
		if d.flags&borrowed == 0 {
			return ErrAwaited
		}
		t.loop.remove(d)
		t.loop.evict(d)
	}
	return os.NewSyscallError("close", unix.Close(fd))
}

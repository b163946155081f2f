package loop

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitRead waits until fd can be read or has hung up, for d at most, or without limit if d is
// negative. fd must not be the thread's own descriptor. The error is ErrDeadlineExceeded,
// ErrClientGone, ErrCanceled, ErrAwaited, net.ErrClosed if the descriptor was closed meanwhile, or
// that of epoll_ctl: EBADF, or EPERM for what epoll does not take, such as a regular file.
//
// The descriptor stays with the loop, on loan, until the thread's deferred calls run; a Request
// runs them when its handler has returned. Each wait costs one epoll_ctl, which also finds out
// whether the number is another file's by now. Close the descriptor with CloseFD. After a plain
// close, a wait that has begun goes on for up to a second, and returns net.ErrClosed.
func (t *Thread) AwaitRead(d time.Duration, fd int) error { return t.awaitFD(d, fd, in) }

// AwaitWrite waits until fd can be written or has hung up; see AwaitRead.
func (t *Thread) AwaitWrite(d time.Duration, fd int) error { return t.awaitFD(d, fd, out) }

// AwaitReadWrite waits until fd can be read or written or has hung up; see AwaitRead.
func (t *Thread) AwaitReadWrite(d time.Duration, fd int) error { return t.awaitFD(d, fd, in|out) }

func (t *Thread) awaitFD(d time.Duration, fd int, events uint16) error {
	t.flush()
	if err := t.refused(); err != nil {
		return err
	}
	l := t.loop
	l.tick() // what the thread did before may have taken its time
	until := l.after(d)
	loan, err := l.borrow(t, fd, events)
	if err != nil {
		return err
	}
	return t.await(loan, events, until)
}

// borrow claims fd for t and asks epoll for the events.
func (l *Loop) borrow(t *Thread, fd int, events uint16) (*Shared, error) {
	// If one rests there, its number must be another file's by now, or epoll_ctl fails.
	if old := l.lookup(fd); old != nil && old.flags&resting == 0 {
		if old.flags&borrowed == 0 {
			return nil, ErrAwaited
		}
		if d := old.asShared(); l.stands(d, events) {
			before := d.thread
			if err := d.claim(t, events); err != nil {
				return nil, err
			}
			if before != t {
				t.keep(d)
			}
			return d, nil
		}
	}
	d := &Shared{Descriptor{thread: t, fd: int32(fd), flags: shared | borrowed | mask(events)}, t, l}
	if err := l.add(&d.Descriptor, events); err != nil {
		return nil, err
	}
	t.keep(d)
	return d, nil
}

// stands asks epoll for the events of a loan, besides those that threads wait for. It reports
// whether the loan stands: the owner may have closed the descriptor, and the number may be another
// file's by now. The threads that wait for a closed one are told.
func (l *Loop) stands(d *Shared, events uint16) bool {
	awaited := d.flags.awaited()
	if d.edges.dead() && awaited != 0 {
		return true // it has hung up, and the waits are going to return
	}
	if d.edges.dead() || l.ask(&d.Descriptor, unix.EPOLL_CTL_MOD, awaited|events) != nil {
		l.evict(&d.Descriptor)
		return false
	}
	return true
}

// checkLoans ends waits for descriptors that their owner has closed by a plain close, of which
// epoll says nothing. The timer of a thread with loans calls it each second.
func (t *Thread) checkLoans() {
	if t.more == nil {
		return
	}
	for _, d := range t.more.loans {
		if awaited := d.flags.awaited(); awaited != 0 && d.edges.armed(awaited) {
			t.loop.stands(d, 0)
		}
	}
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
	if t.more == nil {
		return // see TakeDeferred
	}
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

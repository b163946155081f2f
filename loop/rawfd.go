package loop

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitRead waits until fd can be read or has hung up, for d at most; negative: without limit. fd
// must not be the thread's own descriptor. The error is ErrDeadlineExceeded, ErrClientGone,
// ErrCanceled, ErrAwaited, net.ErrClosed if the descriptor was closed meanwhile, or that of
// epoll_ctl: EBADF, or EPERM for what epoll does not take, such as a regular file.
//
// The raw descriptor stays registered with the loop until the thread's deferred calls run; a
// Request runs them when its handler has returned. Each wait costs one epoll_ctl, which also finds
// out whether the number is another file's by now. Close the descriptor with CloseFD. After a plain
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
	s, err := l.registerRawFD(t, fd, events)
	if err != nil {
		return err
	}
	return t.await(s, events, until)
}

// registerRawFD claims fd for t and asks epoll for the events.
func (l *Loop) registerRawFD(t *Thread, fd int, events uint16) (*Shared, error) {
	// If an idle one is there, its number must be another file's by now, or epoll_ctl fails.
	if old := l.lookup(fd); old != nil && old.flags&idleFD == 0 {
		if old.flags&rawFD == 0 {
			return nil, ErrAwaited
		}
		if d := old.asShared(); l.reregisterRawFD(d, events) {
			before := d.thread
			if err := d.claim(t, events); err != nil {
				return nil, err
			}
			if before != t {
				t.noteRawFD(d)
			}
			return d, nil
		}
	}
	d := &Shared{Descriptor{thread: t, fd: int32(fd), flags: shared | rawFD | mask(events)}, t, l}
	if err := l.add(&d.Descriptor, events); err != nil {
		return nil, err
	}
	t.noteRawFD(d)
	return d, nil
}

// reregisterRawFD asks epoll for the events of d, besides those that threads wait for. It reports
// whether d is still the same file: the owner may have closed the descriptor, and the number may be
// another file's by now. Threads that wait for a closed one are woken.
func (l *Loop) reregisterRawFD(d *Shared, events uint16) bool {
	awaited := d.flags.awaited()
	if d.edges.dead() && awaited != 0 {
		return true // it has hung up, and the waits are going to return
	}
	if d.edges.dead() || l.epollCtl(&d.Descriptor, awaited|events) != nil {
		l.evict(&d.Descriptor)
		return false
	}
	return true
}

// checkRawFDs ends waits for descriptors that their owner has closed by a plain close, of which
// epoll says nothing. The timer of a thread with raw descriptors calls it each second.
func (t *Thread) checkRawFDs() {
	if t.more == nil {
		return
	}
	for _, d := range t.more.rawFDs {
		if awaited := d.flags.awaited(); awaited != 0 && d.edges.armed(awaited) {
			t.loop.reregisterRawFD(d, 0)
		}
	}
}

// noteRawFD notes that t's deferred calls release d.
func (t *Thread) noteRawFD(d *Shared) {
	m := t.extra()
	switch n := len(m.rawFDs); {
	case n == 0:
		t.Defer(t.releaseRawFDs)
	case slices.Contains(m.rawFDs, d):
		return
	case n == cap(m.rawFDs): // a thread may use one descriptor after the other for ever
		m.rawFDs = slices.DeleteFunc(m.rawFDs, func(d *Shared) bool {
			return t.loop.lookup(int(d.fd)) != &d.Descriptor || d.thread != t && d.writer != t
		})
	}
	m.rawFDs = append(m.rawFDs, d)
}

// releaseRawFDs releases t's raw descriptors, except those that another thread has taken over.
func (t *Thread) releaseRawFDs() {
	if t.more == nil {
		return // see TakeDeferred
	}
	for _, d := range t.more.rawFDs {
		if d.thread == t && t.loop.lookup(int(d.fd)) == &d.Descriptor {
			t.loop.remove(&d.Descriptor)
			t.loop.forget(&d.Descriptor)
		}
	}
	clear(t.more.rawFDs)
	t.more.rawFDs = t.more.rawFDs[:0]
}

// CloseFD closes a descriptor that threads may have awaited. A thread that waits for it gets
// net.ErrClosed. If the error is ErrAwaited, the descriptor is a thread's own or a stream's, and
// was not closed.
func (t *Thread) CloseFD(fd int) error {
	if d := t.loop.lookup(fd); d != nil && d.flags&idleFD == 0 {
		if d.flags&rawFD == 0 {
			return ErrAwaited
		}
		t.loop.remove(d)
		t.loop.evict(d)
	}
	return os.NewSyscallError("close", unix.Close(fd))
}

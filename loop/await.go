package loop

import (
	"errors"
	"time"

	"github.com/lwango/lwango/coro"
)

// ErrAwaited is returned when a descriptor is already waited for on the same loop. Across loops that cannot be seen:
// two loops that await one descriptor are both told.
var ErrAwaited = errors.New("descriptor is awaited already")

// AwaitRead waits until fd, which is not the thread's own, can be read or has hung up, at most d; negative d: without
// limit. The error is os.ErrDeadlineExceeded, ErrClientGone, ErrAwaited, or epoll_ctl's: EBADF, or EPERM for
// what cannot be waited for, such as a regular file.
func (t *Thread) AwaitRead(fd int, d time.Duration) error {
	return t.awaitFD(coro.AsyncAwaitRead, fd, d)
}

// AwaitWrite waits until fd can be written.
func (t *Thread) AwaitWrite(fd int, d time.Duration) error {
	return t.awaitFD(coro.AsyncAwaitWrite, fd, d)
}

// AwaitReadWrite waits until fd can be read or written.
func (t *Thread) AwaitReadWrite(fd int, d time.Duration) error {
	return t.awaitFD(coro.AsyncAwaitReadWrite, fd, d)
}

func (t *Thread) awaitFD(code coro.Code, fd int, d time.Duration) error {
	if fd == int(t.own.fd) && fd >= 0 {
		return ErrAwaited // by the loop, on the thread's behalf: that is what the Want methods are for
	}
	if t.own.flags&(finished|keepWaiting) == finished {
		return ErrClientGone
	}
	l := &loan{d: desc{thread: t, fd: int32(fd), flags: lent | awaitMask[code]}}
	t.loan = l
	t.Timeout(d)
	t.woken = wokenByEvent
	t.co.Yield(coro.Make(code, fd))
	if l.err != nil {
		return l.err
	}
	return t.woken.err()
}

// loan is a descriptor's slot in the hands of a thread that awaits it.
type loan struct {
	d   desc
	err error
}

// await takes the loan for the thread that has just yielded v.
func (l *Loop) await(t *Thread, v coro.Value) {
	fd := v.FD()
	if fd >= 0 && fd < len(l.table) && l.table[fd] != nil {
		t.loan.err = ErrAwaited
	} else {
		t.loan.err = l.add(&t.loan.d)
	}
	if t.loan.err != nil {
		l.ready(t, wokenByEvent)
	}
}

// repay ends t's loan, before t goes on or ends. Where the descriptor was closed meanwhile and its number taken by
// somebody else, the slot is theirs and stays.
func (l *Loop) repay(t *Thread) {
	d := &t.loan.d
	if fd := int(d.fd); fd >= 0 && fd < len(l.table) && l.table[fd] == d {
		l.remove(d)
		l.table[fd] = nil
	}
	t.loan = nil
}

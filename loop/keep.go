package loop

import (
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// Keep takes d, which Open has made, out of use until Reuse. d stays registered with the loop, and
// so the next use on this loop costs no system call. But its number, which Keep returns, belongs to
// the caller from now on, and outlives the loop. The caller may be any goroutine when it closes the
// number, or gives it to another loop, after Withdraw.
//
// ok is false, and d is as before, if d is not quiet: there is something to read, of which Keep may
// take a byte, there is no room for what was put off, the peer has left, or a thread waits for d.
func (l *Loop) Keep(d *Descriptor) (fd int, ok bool) {
	const state = shared | rawFD | finished
	if d.fd < 0 || d.edges.dead() || d.flags&state != shared || d.flags.awaited() != 0 ||
		d.flushPutOff() != 0 {
		return -1, false
	}
	for d.Unread() { // a read that filled its buffer cannot tell whether that was all
		var b [1]byte
		if _, errno := d.Recv(b[:]); errno != unix.EAGAIN {
			return -1, false
		}
	}
	d.flags |= kept
	s := d.asShared()
	s.thread, s.writer = nil, nil
	return int(d.fd), true
}

// Reuse takes d, which is kept, into use again, if it is quiet as far as the loop knows: no event
// has come since Keep. Otherwise it returns false, and d stays kept. It is called on the loop.
func (l *Loop) Reuse(d *Descriptor) bool {
	if d.fd < 0 || d.Unread() || d.flags&finished != 0 {
		return false
	}
	d.flags &^= kept
	return true
}

// Polls counts the calls of epoll_wait that have returned all events that there were.
// Whatever had come for a descriptor before the last of them, the loop knows of. It is called on
// the loop.
func (l *Loop) Polls() int64 { return l.fullPolls }

// Withdraw takes fd, which is kept, out of the loop. Any goroutine may call it that owns fd.
//
// The loop keeps its record of fd, since only the loop may touch that. No thread waits for the
// record, so late events find nothing to do, and the next file that gets the number on this loop
// drops it.
func (l *Loop) Withdraw(fd int) {
	p := &l.post
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed { // otherwise the epoll instance is closed at any moment, and its number reused
		_ = sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_DEL, fd, 0, 0)
	}
}

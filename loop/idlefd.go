package loop

import (
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// PutIdle makes d, which Register has registered, an idle socket until Reuse. d stays registered,
// so the next use on this loop costs no system call. But its number, which PutIdle returns, belongs
// to the caller from now on, and outlives the loop: any goroutine may close the number, or give it
// to another loop, after DeregisterIdle.
//
// ok is false, and d is unchanged, if d cannot be idle: there is input, of which PutIdle may take a
// byte, or no room for what was put off, the peer has left, or a thread waits for d.
func (l LoopLayer) PutIdle(d *Descriptor) (fd int, ok bool) {
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
	d.flags |= idleFD
	s := d.asShared()
	s.thread, s.writer = nil, nil
	return int(d.fd), true
}

// Reuse takes the idle d into use again, if no event has come since PutIdle, as far as the loop
// knows. Otherwise it returns false, and d stays idle. It is called on the loop.
func (l LoopLayer) Reuse(d *Descriptor) bool {
	if d.fd < 0 || d.Unread() || d.flags&finished != 0 {
		return false
	}
	d.flags &^= idleFD
	return true
}

// Polls counts the calls of epoll_wait that have returned all events that there were. The loop
// knows of each event that came before the last of them. It is called on the loop.
func (l LoopLayer) Polls() int64 { return l.fullPolls }

// DeregisterIdle takes the idle fd out of the loop. Any goroutine that owns fd may call it.
//
// The loop keeps its record of fd, since only the loop may touch that. No thread waits for the
// record, so late events find nothing to do, and the next file that gets the number on this loop
// drops it.
func (l LoopLayer) DeregisterIdle(fd int) {
	p := &l.post
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed { // otherwise the epoll instance is closed at any moment, and its number reused
		_ = sysio.EpollCtl(l.epfd, unix.EPOLL_CTL_DEL, fd, 0, 0)
	}
}

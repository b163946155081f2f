package loop

import (
	"math/rand/v2"
	"syscall"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// The methods below move bytes over a socket without waiting. They note when a read found no more
// input or a write no more room: then epoll is still armed for the next event, and the wait that
// follows costs no system call. After other system calls on the socket, or where there may be more,
// the wait costs an epoll_ctl.

// Recv reads from a socket, as recv(2). The socket must be a stream socket without urgent data or
// passed descriptors: a read stops short at those, as it does at the end of a datagram, although
// there is more.
func (d *Descriptor) Recv(p []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		short, again := d.forceShort(p)
		if again {
			return 0, unix.EAGAIN
		}
		p = short
	}
	n, errno := sysio.Recv(int(d.fd), p)
	// A read that left room has taken all there was. But if epoll has reported the end of the
	// stream already, that end is still to be read, and epoll will not report it again.
	if errno == unix.EAGAIN || 0 < n && n < len(p) && !d.Gone() {
		d.edges.move(in, emptied)
	}
	if n == 0 && errno == 0 {
		errno = d.failed()
	}
	return n, errno
}

// Unread reports whether Recv may find something: an event has come since the last read that found
// no more.
func (d *Descriptor) Unread() bool { return d.edges.read != armed }

// Send writes to a socket, as send(2). more announces that further data follows at once (MSG_MORE).
// An empty p has what was put off sent, and is the question whether that has been.
func (d *Descriptor) Send(p []byte, more bool) (int, syscall.Errno) {
	if errno := d.settle(); errno != 0 {
		return 0, errno
	}
	return d.send(p, more)
}

// send is Send without a look at what was put off.
func (d *Descriptor) send(p []byte, more bool) (int, syscall.Errno) {
	if invariants.Enabled {
		short, again := d.forceShort(p)
		if again {
			return 0, unix.EAGAIN
		}
		p = short
	}
	return d.sent(sysio.Send(int(d.fd), p, more))
}

// RecvAside is Recv for another goroutine than the loop's. It leaves alone what the loop knows of
// the descriptor, so the next Recv finds out anew what is there. The caller sees to it that the
// thread that owns d does not run until RecvAside returns, and so cannot close d.
func (d *Descriptor) RecvAside(p []byte) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	return sysio.Recv(int(d.fd), p)
}

// SendAside is Send for another goroutine than the loop's, on RecvAside's terms. Nothing that was
// put off may be left.
func (d *Descriptor) SendAside(p []byte) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	return sysio.Send(int(d.fd), p, false)
}

// SendvAside is Sendv for another goroutine than the loop's, on RecvAside's terms.
func (d *Descriptor) SendvAside(a, b []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		return d.SendAside(a)
	}
	return sysio.Sendv(int(d.fd), a, b)
}

// Sendv writes a and then b, neither of them empty, in one call, as sendmsg(2).
func (d *Descriptor) Sendv(a, b []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		return d.Send(a, false)
	}
	if errno := d.settle(); errno != 0 {
		return 0, errno
	}
	return d.sent(sysio.Sendv(int(d.fd), a, b))
}

// Sendfile sends up to n bytes of the regular file fd, starting at *off, which it advances, as
// sendfile(2). It may sleep on the disk.
func (d *Descriptor) Sendfile(fd int, off *int64, n int) (int, syscall.Errno) {
	if errno := d.settle(); errno != 0 {
		return 0, errno
	}
	return d.sent(sysio.Sendfile(int(d.fd), fd, off, n))
}

func (d *Descriptor) sent(n int, errno syscall.Errno) (int, syscall.Errno) {
	if errno == unix.EAGAIN {
		d.edges.move(out, emptied)
	}
	return n, errno
}

// SpliceTo moves up to n bytes that were received into a pipe with room for them, as splice(2).
func (d *Descriptor) SpliceTo(pipe, n int) (int, syscall.Errno) {
	moved, errno := sysio.Splice(int(d.fd), pipe, n)
	if errno == unix.EAGAIN {
		d.edges.move(in, emptied)
	}
	return moved, errno
}

// SpliceFrom sends up to n bytes from a pipe that has them, as splice(2).
func (d *Descriptor) SpliceFrom(pipe, n int) (int, syscall.Errno) {
	if errno := d.settle(); errno != 0 {
		return 0, errno
	}
	return d.sent(sysio.Splice(pipe, int(d.fd), n))
}

// forceShort makes the rare paths common under the invariants tag.
func forceShort(p []byte) (_ []byte, again bool) {
	if !invariants.Enabled || len(p) == 0 {
		return p, false
	}
	if rand.IntN(8) == 0 {
		return nil, true
	}
	return p[:1+rand.IntN(len(p))], false
}

// forceShort is the function for calls on the loop. A wait for a descriptor that is a thread's own
// arms it each time. Another one is armed when the wait begins, and some sources read in Ready,
// behind that: so a forced EAGAIN makes epoll report anew what is there, as a true one does.
func (d *Descriptor) forceShort(p []byte) (_ []byte, again bool) {
	short, again := forceShort(p)
	if again && d.flags&shared != 0 && d.flags.awaited() != 0 && d.thread.loop.arm(d) {
		return p, false // no event comes any more
	}
	return short, again
}

package loop

import (
	"math/rand/v2"
	"syscall"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

// The methods below move bytes over a socket without waiting. They note when a read found no more
// input or a write found no more room: then epoll is armed for the next event, and the wait that
// follows costs no system call. After other system calls on the socket, or if there may be more
// input or room, the wait costs an epoll_ctl.

// Recv reads from a socket, as recv(2). The socket must be a stream socket without urgent data or
// passed descriptors: a read stops short at those, and at the end of a datagram, although there is
// more input.
func (d *Descriptor) Recv(p []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		short, again := d.forceShort(p)
		if again {
			return 0, unix.EAGAIN
		}
		p = short
	}
	n, errno := sysio.Recv(int(d.fd), p)
	// A read that did not fill p has taken all input. But if epoll has reported the end of the
	// stream already, that end is still to be read, and epoll will not report it again.
	if errno == unix.EAGAIN || 0 < n && n < len(p) && !d.Gone() {
		d.edges.move(in, emptied)
	}
	if n == 0 && errno == 0 {
		errno = d.sendErrno()
	}
	return n, errno
}

// Unread reports whether Recv may find input: no read has found none, or an event has come since.
func (d *Descriptor) Unread() bool { return d.edges.read != armed && d.edges.read != drained }

// Send writes to a socket, as send(2). more announces that further data follows at once (MSG_MORE).
// With an empty p it only sends what was put off, and its error says whether all of that was sent.
func (d *Descriptor) Send(p []byte, more bool) (int, syscall.Errno) {
	if errno := d.flushPutOff(); errno != 0 {
		return 0, errno
	}
	return d.send(p, more)
}

// send is Send for a caller that has sent what was put off.
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

// RecvOffLoop is Recv for a goroutine off the loop. It does not change what the loop knows of the
// descriptor, so the next Recv asks the kernel. The thread that owns d must not run until
// RecvOffLoop returns: it could close d.
func (d *Descriptor) RecvOffLoop(p []byte) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	return sysio.Recv(int(d.fd), p)
}

// SendOffLoop is Send for a goroutine off the loop, under the conditions of RecvOffLoop. All that
// was put off must have been sent.
func (d *Descriptor) SendOffLoop(p []byte) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	return sysio.Send(int(d.fd), p, false)
}

// SendvOffLoop is Sendv for a goroutine off the loop, under the conditions of RecvOffLoop.
func (d *Descriptor) SendvOffLoop(a, b []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		return d.SendOffLoop(a)
	}
	return sysio.Sendv(int(d.fd), a, b)
}

// Sendv writes a and then b, neither of them empty, in one call, as sendmsg(2).
func (d *Descriptor) Sendv(a, b []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		return d.Send(a, false)
	}
	if errno := d.flushPutOff(); errno != 0 {
		return 0, errno
	}
	return d.sent(sysio.Sendv(int(d.fd), a, b))
}

// Sendfile sends up to n bytes of the regular file fd, starting at *off, which it advances, as
// sendfile(2). It may sleep on the disk.
func (d *Descriptor) Sendfile(fd int, off *int64, n int) (int, syscall.Errno) {
	if errno := d.flushPutOff(); errno != 0 {
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

// SpliceTo moves up to n received bytes into a pipe that has room for them, as splice(2).
func (d *Descriptor) SpliceTo(pipe, n int) (int, syscall.Errno) {
	moved, errno := sysio.Splice(int(d.fd), pipe, n)
	if errno == unix.EAGAIN {
		d.edges.move(in, emptied)
	}
	return moved, errno
}

// SpliceFrom sends up to n bytes from a pipe that has them, as splice(2).
func (d *Descriptor) SpliceFrom(pipe, n int) (int, syscall.Errno) {
	if errno := d.flushPutOff(); errno != 0 {
		return 0, errno
	}
	return d.sent(sysio.Splice(pipe, int(d.fd), n))
}

// forceShort shortens p, or reports EAGAIN, at random under the invariants tag, so that tests take
// the paths of short reads and writes often.
func forceShort(p []byte) (_ []byte, again bool) {
	if !invariants.Enabled || len(p) == 0 {
		return p, false
	}
	if rand.IntN(8) == 0 {
		return nil, true
	}
	return p[:1+rand.IntN(len(p))], false
}

// forceShort is the function forceShort for calls on the loop. A wait for a thread's own descriptor
// arms it each time. A shared one is armed when the wait begins, and some sources read in Ready,
// after that. So after a forced EAGAIN epoll must report again what is there, as after a true one.
func (d *Descriptor) forceShort(p []byte) (_ []byte, again bool) {
	short, again := forceShort(p)
	if again && d.flags&shared != 0 && d.flags.awaited() != 0 && d.thread.loop.arm(d) {
		return p, false // no event comes any more
	}
	return short, again
}

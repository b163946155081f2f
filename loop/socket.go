package loop

import (
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

// Open makes d the loop's record of the stream socket fd, non-blocking, which any of its threads may use from now on;
// but only one at a time may wait for input, and one for output. On an error fd is still the caller's.
func (l *Loop) Open(d *Descriptor, fd int) error {
	*d = Descriptor{fd: int32(fd), flags: lent | mask(in|rdhup)}
	err := l.add(d)
	d.flags = lent
	if err != nil {
		d.fd = -1
	}
	return err
}

// Release takes d, which Open has made or which is a thread's own, out of the loop, and returns its number, -1 if it
// has none any more. Who waits for it gets net.ErrClosed, or goes on in WantRead. It is called by the loop's threads,
// or on the loop.
func (l *Loop) Release(d *Descriptor) (fd int) {
	if fd = int(d.fd); fd >= 0 {
		gone := d.flags & finished
		l.remove(d)
		l.evict(d)
		d.flags = d.flags&^finished | gone // nobody has left: a thread goes on without a client
	}
	return fd
}

// CloseDescriptor closes what Release returns.
func (l *Loop) CloseDescriptor(d *Descriptor) {
	if fd := l.Release(d); fd >= 0 {
		sysio.Close(fd)
	}
}

// Rouse has whoever waits for d, idle threads aside, look at it again, as if an event had come.
func (l *Loop) Rouse(d *Descriptor) {
	if d.flags&lent != 0 || d.thread.co != nil {
		l.wakeWaiters(d, d.flags.wanted())
	}
}

// AwaitRead has t wait until d can be read or has hung up, at most timeout; negative: without limit. d is t's own or
// one that Open has made. For t's own the errors are those of WantRead, else those of AwaitRead.
func (d *Descriptor) AwaitRead(t *Thread, timeout time.Duration) error {
	return d.await(t, in, timeout)
}

// AwaitWrite has t wait until d can be written.
func (d *Descriptor) AwaitWrite(t *Thread, timeout time.Duration) error {
	return d.await(t, out, timeout)
}

// AwaitReadWrite has t wait until d can be read or written.
func (d *Descriptor) AwaitReadWrite(t *Thread, timeout time.Duration) error {
	return d.await(t, in|out, timeout)
}

func (d *Descriptor) await(t *Thread, events uint16, timeout time.Duration) error {
	if d == &t.own {
		return t.want(wantCode[events], timeout)
	}
	if d.flags&lent == 0 {
		return ErrAwaited
	}
	t.flush()
	if err := t.refused(); err != nil {
		return err
	}
	if err := t.loop.claim(t, d, events); err != nil {
		return err
	}
	t.loop.tick() // what the thread did before may have taken its time
	return t.await(d, events, t.loop.after(timeout))
}

// The methods below move bytes over a socket without waiting, and note when that has come to its end: what epoll was
// armed for is armed still then, and the wait that follows costs no system call. After other calls on the socket, or
// before the end, the wait costs an epoll_ctl.

// Recv reads from a socket, as recv(2). That must be a stream socket without urgent data or passed descriptors: a read
// stops short of those, and of the end of a datagram, with more to come.
func (d *Descriptor) Recv(p []byte) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	n, errno := sysio.Recv(int(d.fd), p)
	// After a read that left room there is nothing more, unless the end has been reported already: it comes behind the
	// data and would not be reported again.
	if errno == unix.EAGAIN || 0 < n && n < len(p) && !d.Gone() {
		d.exhausted(in)
	}
	return n, errno
}

// Unread reports whether a Recv may have something to give: an event has come since the last one came to the end of
// what there was.
func (d *Descriptor) Unread() bool { return d.armed&in == 0 }

// Send writes to a socket, as send(2). more announces that further data follows at once (MSG_MORE).
func (d *Descriptor) Send(p []byte, more bool) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	return d.sent(sysio.Send(int(d.fd), p, more))
}

// Sendv writes a and then b, neither of them empty, in one call, as sendmsg(2).
func (d *Descriptor) Sendv(a, b []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		return d.Send(a, false)
	}
	return d.sent(sysio.Sendv(int(d.fd), a, b))
}

// Sendfile sends up to n bytes of the regular file fd, from *off on, which it moves, as sendfile(2). It may sleep on
// the disk.
func (d *Descriptor) Sendfile(fd int, off *int64, n int) (int, syscall.Errno) {
	return d.sent(sysio.Sendfile(int(d.fd), fd, off, n))
}

func (d *Descriptor) sent(n int, errno syscall.Errno) (int, syscall.Errno) {
	if errno == unix.EAGAIN {
		d.exhausted(out)
	}
	return n, errno
}

// SpliceTo moves up to n bytes that were received into a pipe with room for them, as splice(2).
func (d *Descriptor) SpliceTo(pipe, n int) (int, syscall.Errno) {
	moved, errno := sysio.Splice(int(d.fd), pipe, n)
	if errno == unix.EAGAIN {
		d.exhausted(in)
	}
	return moved, errno
}

// SpliceFrom sends up to n bytes from a pipe that has them, as splice(2).
func (d *Descriptor) SpliceFrom(pipe, n int) (int, syscall.Errno) {
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

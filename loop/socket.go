package loop

import (
	"math/rand/v2"
	"syscall"

	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

// The functions here move bytes over a thread's own socket without waiting, and note when that has come to its end:
// what epoll was armed for is armed still then, and the wait that follows costs no system call. A thread that uses
// other calls on its socket, or waits before the end, has its Want cost an epoll_ctl. They are functions, and no
// methods, because a Request embeds its Thread, and handlers are to leave the socket alone.

// Recv reads from t's socket, as recv(2). That must be a stream socket without urgent data or passed descriptors: a read
// stops short of those, and of the end of a datagram, with more to come.
func Recv(t *Thread, p []byte) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	n, errno := sysio.Recv(t.FD(), p)
	// After a read that left room there is nothing more, unless the end has been reported already: it comes behind the
	// data and would not be reported again.
	if errno == unix.EAGAIN || 0 < n && n < len(p) && !t.Gone() {
		t.own.exhausted(in)
	}
	return n, errno
}

// Readable reports whether a Recv may have something to give: an event has come since the last one came to the end of
// what there was.
func Readable(t *Thread) bool { return t.own.armed&in == 0 }

// Send writes to t's socket, as send(2). more announces that further data follows at once (MSG_MORE).
func Send(t *Thread, p []byte, more bool) (int, syscall.Errno) {
	p, again := forceShort(p)
	if again {
		return 0, unix.EAGAIN
	}
	return t.sent(sysio.Send(t.FD(), p, more))
}

// Sendv writes a and then b, neither of them empty, in one call, as sendmsg(2).
func Sendv(t *Thread, a, b []byte) (int, syscall.Errno) {
	if invariants.Enabled {
		return Send(t, a, false)
	}
	return t.sent(sysio.Sendv(t.FD(), a, b))
}

// Sendfile sends up to n bytes of the regular file fd, from *off on, which it moves, as sendfile(2). It may sleep on the
// disk.
func Sendfile(t *Thread, fd int, off *int64, n int) (int, syscall.Errno) {
	return t.sent(sysio.Sendfile(t.FD(), fd, off, n))
}

func (t *Thread) sent(n int, errno syscall.Errno) (int, syscall.Errno) {
	if errno == unix.EAGAIN {
		t.own.exhausted(out)
	}
	return n, errno
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

package loop

import (
	"net/netip"
	"syscall"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

const (
	acceptsPerTurn = 64 // connections, including failed ones; the rest wait in the kernel's queue
	firstBackOff   = 10 * time.Millisecond
	lastBackOff    = time.Second
)

// Listener is the thread that accepts the connections of one listening socket on one loop.
type Listener struct {
	Thread
	accept  func(fd int, remote netip.AddrPort)
	closing bool
	backOff time.Duration // the last one; 0 once no connection waits
	told    bool          // the log says that connections wait
	quiet   int64         // when the log may say so again, in milliseconds of the loop
}

// noteEvery is how long, in milliseconds, a shortage is not logged again: it may come and go with
// each connection.
const noteEvery = 60_000

// Accept calls accept on the loop for every connection to the listening socket fd, which belongs to
// the Listener from now on. remote is the zero AddrPort for UNIX sockets. accept owns the
// connection's descriptor.
//
// The loop keeps a spare descriptor from now on. If there is no other one (EMFILE, ENFILE), it
// accepts a connection in the place of the spare one, and Scarce reports that to accept. If the
// spare one is used up as well, or memory is short (ENOBUFS, ENOMEM), the thread sleeps for a time
// that doubles up to a second, and the connections wait in the kernel. Everything else goes on.
func (l *Loop) Accept(fd int, accept func(fd int, remote netip.AddrPort)) (*Listener, error) {
	ln := &Listener{accept: accept}
	if err := l.Attach(&ln.Thread, fd, ln, -1); err != nil {
		return nil, err
	}
	l.keepSpare()
	return ln, nil
}

// Scarce reports whether the loop's spare descriptor is used up: the connection that is being
// accepted has taken it. Unless another descriptor is closed, the next connection has to wait. It
// is called on the loop.
func (l *Loop) Scarce() bool { return l.spare < 0 }

// keepSpare opens the spare descriptor, if it can. It is a duplicate of the eventfd, which takes no
// file system.
func (l *Loop) keepSpare() {
	if l.spare < 0 {
		l.spare, _ = unix.FcntlInt(uintptr(l.wakefd), unix.F_DUPFD_CLOEXEC, 0) // -1 with an error
	}
}

// acceptSpare accepts a connection in the place of the spare descriptor. The kernel looks for a
// free descriptor before it looks for a connection, so the result may be EAGAIN: there is no
// connection.
func (ln *Listener) acceptSpare(sa *unix.RawSockaddrAny, errno syscall.Errno) (int, syscall.Errno) {
	l := ln.loop
	if l.spare < 0 {
		return -1, errno
	}
	sysio.Close(l.spare)
	l.spare = -1
	fd, errno := sysio.Accept(ln.FD(), sa)
	if errno != 0 {
		l.keepSpare()
	}
	return fd, errno
}

// Close accepts the connections that wait, and then closes the listening socket. It is called on
// the loop.
func (ln *Listener) Close() {
	ln.closing = true
	Wake(&ln.Thread)
}

// Left implements Body. A listener has no peer.
func (ln *Listener) Left() {}

// Ended implements Body.
func (ln *Listener) Ended() {}

// Run implements Body.
func (ln *Listener) Run(t *Thread) coro.Code {
	var sa unix.RawSockaddrAny
	for n, failed := 0, 0; ; {
		last := ln.closing || t.loop.Stopping()
		t.loop.keepSpare() // the last connection may have taken it
		fd, errno := sysio.Accept(t.FD(), &sa)
		if errno == unix.EMFILE || errno == unix.ENFILE {
			fd, errno = ln.acceptSpare(&sa, errno)
		}
		switch errno {
		case 0:
			failed = 0
			ln.accept(fd, remoteAddr(&sa))
			if n++; n%acceptsPerTurn == 0 {
				if !ln.closing && !t.loop.Stopping() {
					return coro.WantRead
				}
				t.Yield()
			}
		case unix.EAGAIN:
			t.own.exhausted(in)
			if ln.backOff > 0 {
				ln.backOff = 0
				if ln.told {
					t.loop.log.Info("accepting again, no connection waits")
					ln.told = false
				}
			}
			if last {
				return coro.Abort
			}
			return coro.WantRead
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			if ln.backOff == 0 && t.loop.now >= ln.quiet {
				t.loop.log.Error("accept: out of resources, new connections wait", "error", errno)
				ln.told, ln.quiet = true, t.loop.now+noteEvery
			}
			if last {
				return coro.Abort
			}
			ln.backOff = min(max(2*ln.backOff, firstBackOff), lastBackOff)
			_ = t.Sleep(ln.backOff)
		default:
			if !passing(errno) {
				t.loop.log.Error("accept: listener closed", "error", errno)
				return coro.Abort
			}
			failed++
			switch n++; {
			case failed%acceptsPerTurn == 0: // a seccomp filter may refuse each call
				if last {
					return coro.Abort
				}
				_ = t.Sleep(firstBackOff)
			case n%acceptsPerTurn == 0:
				t.Yield()
			}
		}
	}
}

// Passing reports whether accept(2) may succeed after this error: descriptors or memory are short,
// or it is the error of a single connection.
func Passing(errno syscall.Errno) bool {
	switch errno {
	case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		return true
	}
	return passing(errno)
}

// passing reports whether an error is that of the connection that was to be accepted, not of the
// listener (accept(2), "Error handling").
func passing(errno syscall.Errno) bool {
	switch errno {
	case unix.ECONNABORTED, unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET,
		unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH, unix.EPERM, unix.ETIMEDOUT:
		return true
	}
	return false
}

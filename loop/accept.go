package loop

import (
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

const (
	acceptsPerTurn = 64 // failed ones included; the rest stay in the kernel's queue
	firstBackOff   = 10 * time.Millisecond
	lastBackOff    = time.Second
)

// logInterval is how long, in milliseconds, a shortage is not logged again: it may come and go with
// each connection.
const logInterval = 60_000

// Acceptor accepts the connections of one listening socket, one with each call of Accept. The zero
// Acceptor is ready for use.
type Acceptor struct {
	closing    bool          // Listener.Close was called
	more       bool          // the last call has accepted one, and none has found the end since
	turn       int           // calls of accept4 since other threads had their turn
	failed     int           // calls that failed since a connection was accepted
	backOff    time.Duration // the last one; 0 once all waiting connections were accepted
	logged     bool          // the log says that connections wait
	quietUntil int64         // until then nothing is logged, in milliseconds of the loop
}

// Accept accepts a connection to the listening socket d. t is the calling thread; d is t's own, or
// one of Register. remote is the zero AddrPort for UNIX sockets. If no connection waits, the
// error is ErrNoConnection, and the caller waits until d can be read.
//
// Accept passes over the errors of single connections. From now on the loop keeps a spare
// descriptor. If there is no other one (EMFILE, ENFILE), Accept uses it for the connection, and
// SpareInUse reports that. While there is none at all, or memory is short (ENOBUFS, ENOMEM), or one
// call after the other fails (a filter may refuse them), Accept waits, for times that double up to
// a second. The connections wait in the kernel meanwhile, and the loop's other threads go on. If
// the loop stops during that, or d was closed, the error is net.ErrClosed.
func (a *Acceptor) Accept(t *Thread, d *Descriptor) (fd int, remote netip.AddrPort, err error) {
	var sa unix.RawSockaddrAny
	for l := t.loop; ; {
		if a.turn++; a.turn > acceptsPerTurn {
			a.turn = 1
			t.Yield()
		}
		if d.fd < 0 {
			return -1, remote, net.ErrClosed
		}
		last := a.closing || l.Stopping()
		l.keepSpare() // the last connection may have taken it
		fd, errno := -1, unix.EAGAIN
		if !a.more || sysio.Ready(int(d.fd), in) != 0 {
			fd, errno = sysio.Accept(int(d.fd), &sa)
		}
		if errno == unix.EMFILE || errno == unix.ENFILE {
			fd, errno = l.acceptSpare(int(d.fd), &sa, errno)
		}
		switch errno {
		case 0:
			a.failed, a.more = 0, true
			return fd, remoteAddr(&sa), nil
		case unix.EAGAIN:
			d.edges.move(in, emptied)
			a.turn, a.more, a.backOff = 0, false, 0
			if a.logged {
				l.log.Info("loop: accepting again, no connection waits")
				a.logged = false
			}
			return -1, remote, ErrNoConnection
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		default:
			if !concernsOneConnection(errno) {
				return -1, remote, os.NewSyscallError("accept", errno)
			}
			if a.failed++; a.failed%acceptsPerTurn != 0 {
				continue
			}
		}
		if a.backOff == 0 && l.now >= a.quietUntil {
			l.log.Error("loop: new connections wait, accept has failed", "error", errno)
			a.logged, a.quietUntil = true, l.now+logInterval
		}
		if last {
			return -1, remote, net.ErrClosed
		}
		a.turn, a.backOff = 0, min(max(2*a.backOff, firstBackOff), lastBackOff)
		_, err := t.AwaitAny(a.backOff, l.Stopped())
		if err != nil && err != ErrDeadlineExceeded {
			return -1, remote, err
		}
	}
}

// Listener is the thread that accepts the connections of one listening socket on one loop.
type Listener struct {
	Thread
	acceptor Acceptor
	accept   func(fd int, remote netip.AddrPort)
}

// Accept calls accept on the loop for every connection to the listening socket fd, which belongs to
// the Listener from now on. accept owns the connection's descriptor; remote is the zero AddrPort
// for UNIX sockets. Acceptor.Accept says what happens when descriptors or memory are short. With an
// error fd is still the caller's: see Attach.
func (l *Loop) Accept(fd int, accept func(fd int, remote netip.AddrPort)) (*Listener, error) {
	ln := &Listener{accept: accept}
	if err := l.Attach(&ln.Thread, fd, ln, -1); err != nil {
		return nil, err
	}
	ln.own.flags &^= sole // another process may serve the same socket, before and after an upgrade
	l.keepSpare()
	return ln, nil
}

// SpareInUse reports that the loop's spare descriptor is in use: the connection that was accepted
// last has taken it. Unless some descriptor is closed, the next connection has to wait. SpareInUse
// is called on the loop.
func (l LoopLayer) SpareInUse() bool { return l.spare < 0 }

// keepSpare opens the spare descriptor, if it can. That is a duplicate of the eventfd, which needs
// no file system.
func (l *Loop) keepSpare() {
	if l.spare < 0 {
		l.spare, _ = unix.FcntlInt(uintptr(l.wakefd), unix.F_DUPFD_CLOEXEC, 0) // -1 with an error
	}
}

// acceptSpare closes the spare descriptor and accepts a connection in its place. errno is the error
// without it. The kernel looks for a free descriptor before it looks for a connection, so EAGAIN
// (no connection waits) is among the results.
func (l *Loop) acceptSpare(ln int, sa *unix.RawSockaddrAny,
	errno syscall.Errno) (int, syscall.Errno) {
	if l.spare < 0 {
		return -1, errno
	}
	sysio.Close(l.spare)
	l.spare = -1
	fd, errno := sysio.Accept(ln, sa)
	if errno != 0 {
		l.keepSpare()
	}
	return fd, errno
}

// Close makes the Listener accept the connections that wait, and then close its socket. It is
// called on the loop.
func (ln *Listener) Close() {
	ln.acceptor.closing = true
	ln.Thread.Layer().Wake()
}

// ClientGone implements Task; a listener has no peer.
func (ln *Listener) ClientGone() {}

// Ended implements Task.
func (ln *Listener) Ended() {}

// Run implements Task.
func (ln *Listener) Run(t *Thread) coro.Code {
	for {
		fd, remote, err := ln.acceptor.Accept(t, &t.own)
		switch {
		case err == nil:
			ln.accept(fd, remote)
		case err == ErrNoConnection && !ln.acceptor.closing && !t.loop.Stopping():
			return coro.WantRead
		case err == ErrNoConnection || err == net.ErrClosed:
			return coro.Abort
		default:
			t.loop.log.Error("loop: listener closed, accept has failed", "error", err)
			return coro.Abort
		}
	}
}

// concernsOneConnection reports whether an error concerns one connection and not the listener
// (accept(2), "Error handling").
func concernsOneConnection(errno syscall.Errno) bool {
	switch errno {
	case unix.ECONNABORTED, unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN,
		unix.ENONET, unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH, unix.EPERM,
		unix.ETIMEDOUT:
		return true
	}
	return false
}

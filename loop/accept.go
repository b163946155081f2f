package loop

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

const (
	acceptsPerTurn = 64 // connections, failed ones included; the rest stays in the kernel's queue
	firstBackOff   = 10 * time.Millisecond
	lastBackOff    = time.Second
)

// noteEvery is the least time between two log lines about a shortage, in milliseconds: a shortage
// may come and go with each connection.
const noteEvery = 60_000

// Acceptor accepts the connections of one listening socket, call by call. The zero value is good.
type Acceptor struct {
	closing bool
	turn    int           // calls of accept4 since other threads had their turn
	failed  int           // calls that failed since a connection was accepted
	backOff time.Duration // the last pause; 0 once all that had come were accepted
	told    bool          // a log line says that connections wait
	quiet   int64         // no further log line before then, in milliseconds of the loop
}

// ErrNoConnection says that all connections that had come are accepted.
var ErrNoConnection = errors.New("no connection has come")

// Accept accepts a connection to the listening socket d. t is the calling thread. d is the thread's
// own descriptor, or one that Open has made. remote is the zero AddrPort for UNIX sockets. If no
// connection has come, the error is ErrNoConnection, and the caller waits until d can be read.
//
// Accept passes over errors of single connections. From now on the loop keeps a spare descriptor.
// If no other one is left (EMFILE, ENFILE), Accept accepts one connection in place of the spare
// one, and Scarce reports that. If none is left at all, or memory is short (ENOBUFS, ENOMEM), or
// call after call fails (a filter may refuse them), Accept pauses, for times that double up to a
// second. Meanwhile the connections wait in the kernel, and everything else goes on. If the loop
// begins to stop then, the error is net.ErrClosed.
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
		fd, errno := sysio.Accept(int(d.fd), &sa)
		if errno == unix.EMFILE || errno == unix.ENFILE {
			fd, errno = l.acceptSpare(int(d.fd), &sa, errno)
		}
		switch errno {
		case 0:
			a.failed = 0
			return fd, remoteAddr(&sa), nil
		case unix.EAGAIN:
			d.exhausted(in)
			a.turn, a.backOff = 0, 0
			if a.told {
				l.log.Info("accepting again, nobody waits")
				a.told = false
			}
			return -1, remote, ErrNoConnection
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
		default:
			if !passing(errno) {
				return -1, remote, os.NewSyscallError("accept", errno)
			}
			if a.failed++; a.failed%acceptsPerTurn != 0 {
				continue
			}
		}
		if a.backOff == 0 && l.now >= a.quiet {
			l.log.Error("accept: new connections wait", "error", errno)
			a.told, a.quiet = true, l.now+noteEvery
		}
		if last {
			return -1, remote, net.ErrClosed
		}
		a.turn, a.backOff = 0, min(max(2*a.backOff, firstBackOff), lastBackOff)
		if _, err := t.AwaitAny(a.backOff, l.Stopped()); err != nil &&
			err != os.ErrDeadlineExceeded {
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
// the Listener from now on, unless there is an error. remote is the zero AddrPort for UNIX sockets.
// The function accept owns the connection's descriptor. See Acceptor.Accept.
func (l *Loop) Accept(fd int, accept func(fd int, remote netip.AddrPort)) (*Listener, error) {
	ln := &Listener{accept: accept}
	if err := l.Attach(&ln.Thread, fd, ln, -1); err != nil {
		return nil, err
	}
	l.keepSpare()
	return ln, nil
}

// Scarce reports whether the connection that is being accepted has taken the loop's spare
// descriptor. Then the next connection has to wait until some other descriptor is closed. Scarce
// must be called on the loop.
func (l *Loop) Scarce() bool { return l.spare < 0 }

// keepSpare opens the spare descriptor, if it can: a duplicate of the eventfd, which needs no file
// system.
func (l *Loop) keepSpare() {
	if l.spare < 0 {
		l.spare, _ = unix.FcntlInt(uintptr(l.wakefd), unix.F_DUPFD_CLOEXEC, 0) // -1 with an error
	}
}

// acceptSpare closes the spare descriptor and accepts a connection in its place. The kernel looks
// for a descriptor before it looks for a connection, so the call may fail with EAGAIN: there was no
// connection.
func (l *Loop) acceptSpare(
	ln int, sa *unix.RawSockaddrAny, errno syscall.Errno,
) (int, syscall.Errno) {
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

// Close accepts the connections that have come so far, and then closes the listening socket. It
// must be called on the loop.
func (ln *Listener) Close() {
	ln.acceptor.closing = true
	Wake(&ln.Thread)
}

// Left is called by the loop for threads whose peer has left; a listener has none.
func (ln *Listener) Left() {}

// Ended is called by the loop when the thread has ended.
func (ln *Listener) Ended() {}

// Run is called by the loop when connections may have come, or a stop begins.
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
			t.loop.log.Error("accept: listener closed", "error", err)
			return coro.Abort
		}
	}
}

// passing reports whether errno is an error of the connection that was to be accepted, and not of
// the listener (accept(2), "Error handling").
func passing(errno syscall.Errno) bool {
	switch errno {
	case unix.ECONNABORTED, unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN,
		unix.ENONET, unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH, unix.EPERM,
		unix.ETIMEDOUT:
		return true
	}
	return false
}

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
	acceptsPerTurn = 64 // connections, failed ones included; the rest stays in the kernel's queue for the next turn
	firstBackOff   = 10 * time.Millisecond
	lastBackOff    = time.Second
)

// noteEvery is how long, in milliseconds, a shortage is not logged again: it may come and go with each connection.
const noteEvery = 60_000

// Acceptor accepts the connections of one listening socket, call by call. The zero value is good.
type Acceptor struct {
	closing bool
	turn    int           // calls of accept4 since other threads had their turn
	failed  int           // since a connection was accepted
	backOff time.Duration // the last one; 0 once all that had come were accepted
	told    bool          // the log knows that connections wait
	quiet   int64         // no further line in the log until then, in milliseconds of the loop
}

// ErrNoConnection says that all connections that had come were accepted.
var ErrNoConnection = errors.New("no connection has come")

// Accept accepts a connection to the listening socket d, which is the own one of t, the thread that
// calls it, or one that Open has made. remote is the zero AddrPort for UNIX sockets. Where no
// connection has come, the error is ErrNoConnection, and the caller waits until d can be read.
//
// Errors of single connections are passed over. The loop keeps a spare descriptor from now on. Where
// there is no other one (EMFILE, ENFILE), a connection is accepted with that, and Scarce reports it.
// While there is none at all, or memory is short (ENOBUFS, ENOMEM), or call after call fails (a filter
// may refuse them), Accept waits, for times that double up to a second; the connections wait in the
// kernel, and everything else goes on. When the loop is to stop meanwhile, the error is net.ErrClosed.
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
		if _, err := t.AwaitAny(a.backOff, l.Stopped()); err != nil && err != os.ErrDeadlineExceeded {
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

// Accept calls accept on the loop for every connection to the listening socket fd, which is the Listener's from now
// on. remote is the zero AddrPort for UNIX sockets. accept owns the connection's descriptor. See Acceptor.Accept.
func (l *Loop) Accept(fd int, accept func(fd int, remote netip.AddrPort)) (*Listener, error) {
	ln := &Listener{accept: accept}
	if err := l.Attach(&ln.Thread, fd, ln, -1); err != nil {
		return nil, err
	}
	l.keepSpare()
	return ln, nil
}

// Scarce reports that the loop's spare descriptor is used up: the connection that is being accepted has taken it. Unless
// some other descriptor is closed, the next one has to wait. It is the loop's.
func (l *Loop) Scarce() bool { return l.spare < 0 }

// keepSpare opens the spare descriptor, if it can. It is the eventfd again: nothing that needs a file system.
func (l *Loop) keepSpare() {
	if l.spare < 0 {
		l.spare, _ = unix.FcntlInt(uintptr(l.wakefd), unix.F_DUPFD_CLOEXEC, 0) // -1 with an error
	}
}

// acceptSpare accepts a connection in the place of the spare descriptor. The kernel looks for a descriptor before it
// looks for a connection, so EAGAIN, that there is no connection, is among the answers.
func (l *Loop) acceptSpare(ln int, sa *unix.RawSockaddrAny, errno syscall.Errno) (int, syscall.Errno) {
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

// Close accepts what has come so far and then closes the listening socket. It is the loop's.
func (ln *Listener) Close() {
	ln.acceptor.closing = true
	Wake(&ln.Thread)
}

// Left is the loop's; a listener has no peer.
func (ln *Listener) Left() {}

// Ended is the loop's.
func (ln *Listener) Ended() {}

// Run is the loop's.
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

// passing reports an error of the connection that was to be accepted, not of the listener (accept(2), "Error
// handling").
func passing(errno syscall.Errno) bool {
	switch errno {
	case unix.ECONNABORTED, unix.ENETDOWN, unix.EPROTO, unix.ENOPROTOOPT, unix.EHOSTDOWN, unix.ENONET,
		unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH, unix.EPERM, unix.ETIMEDOUT:
		return true
	}
	return false
}

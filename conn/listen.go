package conn

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// StreamListener is a net.Listener on a loop. Accept is for one thread of the loop at a time.
type StreamListener struct {
	d        loop.Descriptor
	loop     *loop.Loop
	addr     net.Addr
	readable *loop.Readiness
	path     string // of a UNIX socket
	turn     int    // connections accepted without waiting
}

// Listen listens on a loop: it is called by one of its threads, on the loop, or before it runs. Networks and addresses are
// those of loop.Listen: "tcp" with host:port, where the host is an IP address, or "*" or nothing for all, or "unix" with a
// path. Every loop of a process can listen to the same TCP address, and the kernel spreads the connections.
func Listen(l *loop.Loop, network, address string) (*StreamListener, error) {
	fd, addr, err := listen(network, address)
	if err != nil {
		return nil, err
	}
	ln := &StreamListener{loop: l, addr: addr}
	if network == "unix" {
		ln.path = address
	}
	if err := l.Open(&ln.d, fd); err != nil {
		sysio.Close(fd)
		return nil, err
	}
	ln.readable = ln.d.Readable()
	return ln, nil
}

func listen(network, address string) (fd int, addr net.Addr, err error) {
	if fd, err = loop.Listen(network, address, network == "tcp"); err != nil {
		return -1, nil, err
	}
	return fd, addrOf(network, address, loop.LocalAddr(fd)), nil
}

const acceptsPerTurn = 64

// Accept waits for a connection, and gives it as a *Stream. The error is net.ErrClosed after Close, and when the loop is to
// stop and has accepted what had come.
func (ln *StreamListener) Accept() (net.Conn, error) {
	for backOff := 10 * time.Millisecond; ; {
		ln.loop.Check()
		t := ln.loop.Current()
		if t == nil {
			return nil, ln.fail(errNoThread)
		}
		if ln.turn++; ln.turn > acceptsPerTurn {
			ln.turn = 0
			t.Yield()
		}
		if ln.d.FD() < 0 {
			return nil, ln.fail(net.ErrClosed)
		}
		fd, remote, errno := ln.d.Accept()
		switch errno {
		case 0:
			return ln.accepted(fd, remote)
		case unix.EAGAIN:
			ln.turn = 0
			i, err := t.AwaitAny(-1, ln.readable, ln.loop.Stopped())
			if i == 1 && err == nil && !ln.readable.Ready() {
				err = net.ErrClosed
			}
			if err != nil {
				return nil, ln.fail(err)
			}
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			// Connections wait in the kernel until there are resources for them.
			if err := t.Sleep(backOff); err != nil {
				return nil, ln.fail(err)
			}
			backOff = min(2*backOff, time.Second)
		default:
			return nil, ln.fail(os.NewSyscallError("accept", errno))
		}
	}
}

func (ln *StreamListener) accepted(fd int, remote netip.AddrPort) (net.Conn, error) {
	s := &Stream{loop: ln.loop, remote: remote, unix: ln.path != ""}
	if err := s.open(fd); err != nil {
		sysio.Close(fd)
		return nil, ln.fail(err)
	}
	return s, nil
}

// Addr returns the address, with the real port where 0 was asked for.
func (ln *StreamListener) Addr() net.Addr { return ln.addr }

// Close ends it, and a wait in Accept. A UNIX socket's path is removed.
func (ln *StreamListener) Close() error {
	ln.loop.Check()
	if ln.d.FD() < 0 {
		return ln.fail(net.ErrClosed)
	}
	ln.loop.CloseDescriptor(&ln.d)
	return unlink(ln.path)
}

// unlink removes the path of a UNIX socket that is not abstract.
func unlink(path string) error {
	if path == "" || path[0] == '@' {
		return nil
	}
	return os.Remove(path)
}

func (ln *StreamListener) fail(err error) error {
	return fmt.Errorf("accept %s: %w", ln.addr, err)
}

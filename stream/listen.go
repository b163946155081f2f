package stream

import (
	"net"
	"os"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// Listener is a net.Listener on a loop. Accept is for one thread of the loop at a time.
type Listener struct {
	d        loop.Shared
	loop     *loop.Loop
	addr     net.Addr
	readable *loop.Readiness
	acceptor loop.Acceptor
	path     string // of a UNIX socket
}

// Listen listens on the loop l. It must be called on the loop, or before the loop runs. Networks
// and addresses are those of loop.Listen: "tcp" with host:port, where the host is an IP address, or
// "*" or nothing for all addresses, or "unix" with a path. Every loop of a process can listen to
// the same TCP address, and the kernel spreads the connections.
func Listen(l *loop.Loop, network, address string) (*Listener, error) {
	fd, addr, err := listen(network, address)
	if err != nil {
		return nil, err
	}
	ln := &Listener{loop: l, addr: addr}
	if network == "unix" {
		ln.path = address
	}
	if err := l.Layer().Register(&ln.d, fd); err != nil {
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

// Accept waits for a connection and returns it as a *Conn. After Close the error is
// net.ErrClosed, and so it is when the loop stops, once all connections that had arrived were
// accepted. While descriptors or memory are short, connections wait in the kernel, and Accept tries
// again after a pause.
func (ln *Listener) Accept() (net.Conn, error) {
	c, err := ln.accept()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: ln.addr.Network(), Addr: ln.addr, Err: err}
	}
	return c, nil
}

func (ln *Listener) accept() (*Conn, error) {
	ln.loop.Layer().Check()
	t := ln.loop.Layer().Current()
	if t == nil {
		return nil, errNoThread
	}
	for {
		fd, remote, err := ln.acceptor.Accept(t, &ln.d.Descriptor)
		if err == nil {
			s, err := open(ln.loop, fd)
			if err != nil {
				sysio.Close(fd)
				return nil, err
			}
			s.remote, s.unix = remote, !remote.IsValid()
			return s, nil
		}
		if err != loop.ErrNoConnection {
			return nil, err
		}
		i, err := t.AwaitAny(-1, ln.readable, ln.loop.Stopped())
		if err != nil {
			return nil, err
		}
		if i == 1 { // the loop stops, and no connection has come
			return nil, net.ErrClosed
		}
	}
}

// Addr returns the address, with the real port where 0 was asked for.
func (ln *Listener) Addr() net.Addr { return ln.addr }

// Close closes the listener, which ends a wait in Accept, and removes the path of a UNIX socket.
func (ln *Listener) Close() error {
	ln.loop.Layer().Check()
	if ln.d.FD() < 0 {
		return &net.OpError{Op: "close", Net: ln.addr.Network(), Addr: ln.addr, Err: net.ErrClosed}
	}
	ln.loop.Layer().CloseDescriptor(&ln.d.Descriptor)
	return unlink(ln.path)
}

// unlink removes the path of a UNIX socket that is not abstract.
func unlink(path string) error {
	if path == "" || path[0] == '@' {
		return nil
	}
	return os.Remove(path)
}

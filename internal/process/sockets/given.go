package sockets

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// given is the network of the address of a net.Listener of the program.
const given = "given"

// GivenAddress returns the address of a net.Listener of the program.
func GivenAddress(ln net.Listener) Address {
	name := ln.Addr().String()
	if ln.Addr().Network() == "unix" {
		name = "unix:" + name
	}
	return Address{Network: given, Name: name}
}

// openGiven duplicates the socket of a net.Listener for n loops.
func openGiven(e *Endpoint, n int) (*Socket, error) {
	s := &Socket{Display: e.Address.String(), Given: e.Given}
	err := control(e.Given, func(fd int) error {
		if err := adopt(fd); err != nil {
			return err
		}
		return s.add(fd, n)
	})
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("listen %s: %w", s.Display, err)
	}
	return s, nil
}

// control calls f with the descriptor of ln.
func control(ln net.Listener, f func(fd int) error) error {
	sc, ok := ln.(syscall.Conn)
	if !ok {
		return fmt.Errorf("a %T has no descriptor; expected the net.Listener of a socket, and TLS "+
			"in a field of its own", ln)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// Same reports whether two net.Listeners have the same socket, or both are nil.
func Same(a, b net.Listener) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	var of [2]unix.Stat_t
	for i, ln := range []net.Listener{a, b} {
		if control(ln, func(fd int) error { return unix.Fstat(fd, &of[i]) }) != nil {
			return false
		}
	}
	return of[0].Dev == of[1].Dev && of[0].Ino == of[1].Ino
}

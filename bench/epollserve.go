package main

import (
	"net"

	"golang.org/x/sys/unix"
)

// serveEpollEcho is the least that an event loop in Go can do for an echo: a callback for each
// descriptor, one buffer for all, and calls that go to the kernel raw. One connection is accepted at
// a time; the watch of the listener is level-triggered and reports the next.
func serveEpollEcho(ln net.Listener) error {
	r := newReactor(echoBuffer)
	r.raw = true
	listener := &link{fd: own(ln.(*net.TCPListener))}
	// Go has set it on no listener, from which accepted sockets would inherit it as the others have
	// it.
	check(unix.SetsockoptInt(listener.fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
	listener.ready = func(uint32) error {
		fd, _, err := unix.Accept4(listener.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return nil
		}
		l := &link{fd: fd}
		echo := func(p []byte) error { return r.write(l, p) }
		l.ready = func(events uint32) error {
			if r.read(l, events, echo) != nil {
				r.close(l)
			}
			return nil
		}
		return r.add(l, readEdge)
	}
	err := r.add(listener, unix.EPOLLIN)
	for err == nil {
		err = r.poll(forever)
	}
	return err
}

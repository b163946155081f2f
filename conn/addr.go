package conn

import (
	"net"
	"net/netip"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// LocalAddr implements net.Conn. Asked for after Close for the first time, it is empty.
func (s *Stream) LocalAddr() net.Addr {
	switch {
	case s.local != nil:
		return s.local
	case s.gone() && s.unix:
		return &net.UnixAddr{Net: "unix"}
	case s.gone():
		return &net.TCPAddr{}
	case s.unix:
		s.local = unixAddr(unix.Getsockname(s.d.FD()))
	default:
		s.local = net.TCPAddrFromAddrPort(loop.LocalAddr(s.d.FD()))
	}
	return s.local
}

// RemoteAddr implements net.Conn.
func (s *Stream) RemoteAddr() net.Addr {
	switch {
	case !s.unix:
		return net.TCPAddrFromAddrPort(s.remote)
	case s.gone():
		return &net.UnixAddr{Net: "unix"}
	}
	return unixAddr(unix.Getpeername(s.d.FD()))
}

func unixAddr(sa unix.Sockaddr, _ error) net.Addr {
	addr := &net.UnixAddr{Net: "unix"}
	if sa, ok := sa.(*unix.SockaddrUnix); ok {
		addr.Name = sa.Name
	}
	return addr
}

// addrOf is the address that a listener was given.
func addrOf(network, path string, tcp netip.AddrPort) net.Addr {
	if network == "unix" {
		return &net.UnixAddr{Net: network, Name: path}
	}
	return net.TCPAddrFromAddrPort(tcp)
}

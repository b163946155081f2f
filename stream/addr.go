package stream

import (
	"net"
	"net/netip"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// name asks the kernel for the kind of the socket that New got, and for the peer's address.
// After the peer has reset the connection, the kernel has no address any more.
func (s *Conn) lookUpPeer() {
	if !s.peerUnknown || s.isClosed() {
		return
	}
	s.peerUnknown = false
	sa, err := unix.Getpeername(s.d.FD())
	if err != nil {
		sa, _ = unix.Getsockname(s.d.FD())
		_, s.unix = sa.(*unix.SockaddrUnix)
		return
	}
	switch sa := sa.(type) {
	case *unix.SockaddrUnix:
		s.unix = true
	case *unix.SockaddrInet4:
		s.remote = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		s.remote = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
}

// LocalAddr implements net.Conn. The address is empty if LocalAddr is first called after Close.
func (s *Conn) LocalAddr() net.Addr {
	s.lookUpPeer()
	switch {
	case s.local != nil:
		return s.local
	case s.isClosed() && s.unix:
		return &net.UnixAddr{Net: "unix"}
	case s.isClosed():
		return &net.TCPAddr{}
	}
	// The socket may be another one than the peer's address says, see Own.
	if at := loop.LocalAddr(s.d.FD()); at.IsValid() {
		s.local = net.TCPAddrFromAddrPort(at)
	} else {
		s.local = unixAddr(unix.Getsockname(s.d.FD()))
	}
	return s.local
}

// RemoteAddr implements net.Conn. For a stream from New, the address is empty if RemoteAddr is
// first called after Close, or after the peer has reset the connection.
func (s *Conn) RemoteAddr() net.Addr {
	s.lookUpPeer()
	switch {
	case !s.unix:
		return net.TCPAddrFromAddrPort(s.remote)
	case s.isClosed():
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

// addrOf returns the address on which a listener listens.
func addrOf(network, path string, tcp netip.AddrPort) net.Addr {
	if network == "unix" {
		return &net.UnixAddr{Net: network, Name: path}
	}
	return net.TCPAddrFromAddrPort(tcp)
}

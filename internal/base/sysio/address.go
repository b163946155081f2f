//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Sockaddr returns the address in the form that system calls take.
func Sockaddr(a netip.AddrPort) (unix.Sockaddr, error) {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}, nil
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		iface, err := net.InterfaceByName(zone)
		if err != nil {
			return nil, err
		}
		sa.ZoneId = uint32(iface.Index)
	}
	return sa, nil
}

// LocalAddr returns the address to which a socket is bound; the zero AddrPort for UNIX sockets.
func LocalAddr(fd int) netip.AddrPort { return addrPort(unix.Getsockname(fd)) }

// PeerAddr returns the address of the other end of a connected socket; the zero AddrPort for UNIX
// sockets, and after the peer has reset the connection.
func PeerAddr(fd int) netip.AddrPort { return addrPort(unix.Getpeername(fd)) }

func addrPort(sa unix.Sockaddr, err error) netip.AddrPort {
	if err != nil {
		return netip.AddrPort{}
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

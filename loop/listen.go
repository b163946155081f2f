package loop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

const backlog = 4096 // the kernel lowers it to net.core.somaxconn

// Listen makes a non-blocking listening socket. network is "tcp" or "unix". For "tcp" the address
// is host:port, where host is an IP address in the form that net.JoinHostPort takes, "localhost",
// or "*" or nothing for all addresses of both families. For "unix" it is a path. With reusePort,
// several sockets can listen to one TCP address, one for each loop, and the kernel spreads the
// connections among them (SO_REUSEPORT, socket(7)). Accepted sockets inherit what SetInherited
// sets.
func Listen(network, address string, reusePort bool) (fd int, err error) {
	switch network {
	case "unix":
		return ListenUnix(address, nil)
	case "tcp":
		return listenTCP(address, reusePort)
	}
	return -1, fmt.Errorf("listen %s %s: network must be tcp or unix", network, address)
}

// ListenUnix is Listen for a path. If bound is not nil, ListenUnix calls it when the file exists
// and no client can connect yet. If bound fails, ListenUnix removes the file and returns the error
// of bound as it is.
func ListenUnix(path string, bound func() error) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, listenError("unix", path, "socket", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		if bound != nil {
			if err := bound(); err != nil {
				_ = unix.Unlink(path)
				unix.Close(fd)
				return -1, err
			}
		}
		if err = unix.Listen(fd, backlog); err == nil {
			return fd, nil
		}
	}
	unix.Close(fd)
	return -1, listenError("unix", path, "bind", err)
}

func listenTCP(address string, reusePort bool) (int, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return -1, fmt.Errorf("listen tcp %s: want host:port: %w", address, err)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return -1, fmt.Errorf("listen tcp %s: port %q: want 0 to 65535", address, portText)
	}
	if host == "*" || host == "" {
		fd, err := listenAddr(netip.AddrPortFrom(netip.IPv6Unspecified(), uint16(port)), reusePort)
		if err == nil || !noIPv6(err) {
			return fd, err
		}
		return listenAddr(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)), reusePort)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		if host != "localhost" {
			return -1, fmt.Errorf("listen tcp %s: host %q: want an IP address or *", address, host)
		}
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return listenAddr(netip.AddrPortFrom(addr, uint16(port)), reusePort)
}

func listenAddr(a netip.AddrPort, reusePort bool) (int, error) {
	family := unix.AF_INET6
	if a.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		unix.IPPROTO_TCP)
	if err != nil {
		return -1, listenError("tcp", a.String(), "socket", err)
	}
	fail := func(call string, err error) (int, error) {
		unix.Close(fd)
		return -1, listenError("tcp", a.String(), call, err)
	}
	options := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
	}
	if reusePort {
		options = append(options,
			struct{ level, name, value int }{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1})
	}
	if family == unix.AF_INET6 {
		v6only := 1
		if a.Addr().IsUnspecified() {
			v6only = 0 // one socket for both families
		}
		options = append(options,
			struct{ level, name, value int }{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, v6only})
	}
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return fail("setsockopt", err)
		}
	}
	SetInherited(fd)
	sa, err := Sockaddr(a)
	if err != nil {
		return fail("address", err)
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fail("bind", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return fail("listen", err)
	}
	return fd, nil
}

// SetInherited sets the options that sockets inherit which are accepted at fd, a listening socket:
// that is free, where a call for each connection is not. The kernel rightly refuses them for a
// socket that is not TCP, whose peer cannot vanish.
//
//   - TCP_NODELAY: what is sent is gathered already.
//   - SO_KEEPALIVE: a client whose machine or network is gone sends no FIN, and a handler that
//     waits and sends nothing would never learn of it. After a minute of silence the kernel asks,
//     each 15 s, and the fourth question without an answer ends the connection with ETIMEDOUT,
//     after two minutes. Go's servers ask after 15 s; that wakes a phone four times as often, for
//     the sake of connections whose end is not urgent. Times that the socket has already are left,
//     such as those of a systemd.socket(5).
func SetInherited(fd int) {
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE); err != nil || on != 0 {
		return
	}
	for _, o := range []struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60}, // in seconds
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 4},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
	} {
		if unix.SetsockoptInt(fd, o.level, o.name, o.value) != nil {
			return
		}
	}
}

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

func listenError(network, address, call string, err error) error {
	return fmt.Errorf("listen %s %s: %w", network, address, os.NewSyscallError(call, err))
}

func noIPv6(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// remoteAddr reads the address that accept4 has stored. It returns the zero AddrPort for families
// without ports.
func remoteAddr(sa *unix.RawSockaddrAny) netip.AddrPort {
	switch sa.Addr.Family {
	case unix.AF_INET:
		in4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), networkOrder(in4.Port))
	case unix.AF_INET6:
		in6 := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom16(in6.Addr).Unmap(), networkOrder(in6.Port))
	}
	return netip.AddrPort{}
}

func networkOrder(port uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&port))
	return uint16(b[0])<<8 | uint16(b[1])
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

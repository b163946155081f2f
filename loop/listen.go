package loop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"unsafe"

	"github.com/lwango/lwango/internal/base/sysio"
	"golang.org/x/sys/unix"
)

const backlog = 4096 // the kernel lowers it to net.core.somaxconn

// Listen makes a non-blocking listening socket. network is "tcp" or "unix". For "tcp" the address
// is host:port, where host is an IP address in the form that net.JoinHostPort takes, "localhost",
// or "*" or nothing for all addresses of both families. For "unix" it is a path. With reusePort,
// several sockets can listen to one TCP address, one for each loop, and the kernel spreads the
// connections among them (SO_REUSEPORT, socket(7)). Accepted sockets inherit
// TCP_NODELAY and SO_KEEPALIVE.
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
	sysio.SetInherited(fd)
	sa, err := sysio.Sockaddr(a)
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
func LocalAddr(fd int) netip.AddrPort { return sysio.LocalAddr(fd) }

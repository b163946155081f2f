package sockets

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/loop"
)

// openTCP makes n sockets that share a port. With SO_REUSEPORT, a second server of the same user
// could bind the port as well and would silently take half of the connections, instead of failing
// with "address already in use". So probe binds the port without the option first, which fails if
// any process has it. openTCP does without it if this process has the port itself: a reload may
// move from one address to another with the same port.
func openTCP(name string, n int, ours bool) (*Socket, error) {
	s := &Socket{}
	for range n {
		if len(s.FDs) == 0 && !ours {
			if err := probe(name); err != nil {
				return nil, err
			}
		}
		fd, err := loop.Listen("tcp", name, true)
		if err != nil {
			s.Close()
			return nil, err
		}
		s.FDs = append(s.FDs, fd)
		s.own++
		if s.Display == "" {
			bound := loop.LocalAddr(fd)
			s.Display = bound.String()
			// With port 0, the other loops get the port that the first one got.
			host, _, _ := net.SplitHostPort(name)
			name = net.JoinHostPort(host, strconv.Itoa(int(bound.Port())))
			if host == "*" {
				s.Display = name
			}
		}
	}
	return s, nil
}

// probe binds without listening, so no client can be accepted and lost.
func probe(name string) error {
	host, port, err := net.SplitHostPort(name)
	if err != nil || port == "0" {
		return err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	all := host == "*"
	addr := netip.IPv6Unspecified()
	if !all {
		if addr, err = netip.ParseAddr(host); err != nil {
			return err
		}
		if addr.Zone() != "" {
			return nil // link-local; loop.Listen returns the error
		}
	}
	err = bindAlone(netip.AddrPortFrom(addr, uint16(n)), all)
	if all && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
		// There is no IPv6, so loop.Listen takes all IPv4 addresses.
		err = bindAlone(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(n)), all)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen tcp %s: %w", name, os.NewSyscallError("bind", err))
	}
	return nil // loop.Listen returns other errors
}

// inet6 is a variable only for the tests, which simulate a machine without IPv6.
var inet6 = unix.AF_INET6

// bindAlone binds a socket that shares its port with no other one, and closes it. both says that
// an IPv6 one is for IPv4, too.
func bindAlone(addr netip.AddrPort, both bool) error {
	ip, port := addr.Addr(), int(addr.Port())
	family := inet6
	var sa unix.Sockaddr
	if ip.Is4() {
		family, sa = unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: ip.As4()}
	} else {
		sa = &unix.SockaddrInet6{Port: port, Addr: ip.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// Connections of an earlier server, in TIME_WAIT, do not hold the port.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if !ip.Is4() && !both {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	return unix.Bind(fd, sa)
}

// openUnix makes one socket. It removes the file that a killed server has left behind, but never
// one at which a server listens.
func openUnix(path string, a access, n int) (*Socket, error) {
	bound := func() error {
		_, err := a.set(path, nil)
		return err
	}
	fd, err := loop.ListenUnix(path, bound)
	if errors.Is(err, unix.EADDRINUSE) && stale(path) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		fd, err = loop.ListenUnix(path, bound)
	}
	if info, e := os.Lstat(path); err != nil && e == nil && info.Mode().Type() != fs.ModeSocket {
		err = fmt.Errorf("%w: there is a file that is no socket", err)
	}
	if err != nil {
		return nil, err
	}
	s := &Socket{FDs: []int{fd}, own: 1, path: path, Display: "unix:" + path}
	var file unix.Stat_t
	if err := unix.Lstat(path, &file); err != nil {
		s.Close()
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	s.Dev, s.Ino = file.Dev, file.Ino
	if err := s.add(fd, n-1); err != nil {
		s.Remove()
		s.Close()
		return nil, err
	}
	return s, nil
}

// stale reports whether path is a socket without a listener: only then a connection is refused.
// With any other result, such as a full queue or a missing permission, the file is left alone.
func stale(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Connect(fd, &unix.SockaddrUnix{Name: path}), unix.ECONNREFUSED)
}

package server

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

// socket is what listens to one address: a descriptor for each loop. TCP sockets are separate, and
// the kernel spreads connections over them (SO_REUSEPORT); UNIX and inherited ones are one socket,
// shared by all loops.
//
// Loops get duplicates of these descriptors and close them; so the ones here stay valid until
// close, and a reload can hand out further duplicates. A socket stops listening when both are
// closed.
type socket struct {
	fds   []int
	own   int    // the first so many of fds are sockets of their own, the others duplicates of these
	shown string // the address with the port that the kernel chose

	// The file of a UNIX socket, to be removed at the end if it is still this one.
	path string
	file unix.Stat_t

	given net.Listener // of an Embedding, which is closed with the socket; nil: there is none
}

// openSocket makes the descriptors of a listener's address for n loops. inherited are the sockets
// of the service manager; ours are the ports that this process listens to already.
func openSocket(lc listenerConfig, n int, inherited map[string][]int,
	ours map[int]bool) (*socket, error) {
	switch addr := lc.Address; addr.Network {
	case "unix":
		return openUnix(addr.Name, lc.Access, n)
	case "systemd":
		fds := inherited[addr.Name]
		if len(fds) == 0 {
			return nil, fmt.Errorf("listen %s: %s", addr, notInherited(inherited))
		}
		s := &socket{}
		for _, fd := range fds {
			if err := s.duplicate(fd, n); err != nil {
				s.close()
				return nil, fmt.Errorf("listen %s: %w", addr, err)
			}
		}
		s.shown = addr.String()
		return s, nil
	case given:
		return openGiven(lc, n)
	}
	return openTCP(lc.Address.Name, n, ours[lc.Address.port()])
}

// openTCP makes n sockets that share a port. With SO_REUSEPORT, a second server of the same user
// could bind the port as well and would silently take half of the connections, instead of failing
// with "address already in use". So probe binds the port without the option first, which fails if
// any process has it. openTCP does without probe if this process has the port itself: a reload may
// move from one address to another with the same port.
func openTCP(name string, n int, ours bool) (*socket, error) {
	s := &socket{}
	for range n {
		if len(s.fds) == 0 && !ours {
			if err := probe(name); err != nil {
				return nil, err
			}
		}
		fd, err := loop.Listen("tcp", name, true)
		if err != nil {
			s.close()
			return nil, err
		}
		s.fds = append(s.fds, fd)
		s.own++
		if s.shown == "" {
			bound := loop.LocalAddr(fd)
			s.shown = bound.String()
			// With port 0, the other loops get the port that the first one got.
			host, _, _ := net.SplitHostPort(name)
			name = net.JoinHostPort(host, strconv.Itoa(int(bound.Port())))
			if host == "*" {
				s.shown = name
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
			return nil // link-local; loop.Listen says what is wrong with it
		}
	}
	err = bindAlone(netip.AddrPortFrom(addr, uint16(n)), all)
	if all && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
		// There is no IPv6, and so loop.Listen takes all addresses of the other family.
		err = bindAlone(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(n)), all)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("listen tcp %s: %w", name, os.NewSyscallError("bind", err))
	}
	return nil // loop.Listen says what else is wrong
}

// inet6 is a variable only for the tests, which do without IPv6 by it.
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
func openUnix(path string, a access, n int) (*socket, error) {
	bound := func() error { return a.set(path, nil) }
	fd, err := loop.ListenUnix(path, bound)
	if errors.Is(err, unix.EADDRINUSE) && stale(path) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		fd, err = loop.ListenUnix(path, bound)
	}
	if err != nil {
		return nil, err
	}
	s := &socket{path: path, shown: "unix:" + path, fds: []int{fd}, own: 1}
	if err := unix.Lstat(path, &s.file); err != nil {
		s.close()
		return nil, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if err := s.duplicate(fd, n-1); err != nil {
		s.remove()
		s.close()
		return nil, err
	}
	return s, nil
}

// stale reports whether path is a socket without a listener: only then is a connection refused.
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

// duplicate adds n descriptors for the same socket.
func (s *socket) duplicate(fd, n int) error {
	for range n {
		d, err := dup(fd)
		if err != nil {
			return err
		}
		s.fds = append(s.fds, d)
	}
	return nil
}

func dup(fd int) (int, error) {
	d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return d, os.NewSyscallError("fcntl", err)
}

// forLoop returns the descriptors of the i-th of n loops. Several inherited sockets may have one
// name, for instance one for each address family.
func (s *socket) forLoop(i, n int) (fds []int) {
	for j := i; j < len(s.fds); j += n {
		fds = append(fds, s.fds[j])
	}
	return fds
}

func (s *socket) close() {
	for _, fd := range s.fds {
		unix.Close(fd)
	}
	s.fds = nil
}

// remove removes the file of a UNIX socket, unless another file is in its place. It must be called
// before close: once the socket is gone, another file can get its inode number. A net.Listener that
// the program has given is closed, and does the same.
func (s *socket) remove() {
	if s.given != nil {
		_ = s.given.Close() // the program may have closed it
	}
	if s.path == "" {
		return
	}
	var now unix.Stat_t
	if err := unix.Lstat(s.path, &now); err == nil && now.Dev == s.file.Dev &&
		now.Ino == s.file.Ino {
		_ = os.Remove(s.path)
	}
}

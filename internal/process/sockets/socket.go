// Package sockets makes the listening sockets of a server: of TCP and UNIX addresses, from a
// service manager, from the process before this one, and from a net.Listener of the program.
//
// An Endpoint has the keys of a [[listener]] about its socket; Check completes it while a
// configuration is read. Open makes a Socket of it, with a descriptor for each loop. A Socket
// belongs to the server's goroutine. ForLoop gives each loop duplicates of its own, so that the
// server can hand out more: Duplicate is for another listener at the address. ForProcess is for a
// new process, which calls Adopt and Spread. Any goroutine may call Inherited.
//
//	socket.go     Endpoint, Socket: what servers do with them
//	open.go       TCP and UNIX sockets
//	address.go    the syntax of the key address
//	access.go     which users may connect to a UNIX socket
//	given.go      net.Listeners of the program
//	inherited.go  sockets that a service manager passes
package sockets

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/loop"
)

// Endpoint has the keys of a listener about its socket.
type Endpoint struct {
	Table settings.Table `toml:",table"`
	// Listen is host:port, *:port, [v6]:port, unix:/path or systemd:name.
	Listen string `toml:"address"`
	// Mode is of the file of a UNIX socket, such as "0660"; empty: what the umask leaves.
	Mode string `toml:"mode"`
	// Owner is user, group or both of the file of a UNIX socket: "lwango:www-data", ":www-data".
	Owner string `toml:"owner"`

	Address Address      // of Listen
	Given   net.Listener // a listening one; nil: Open makes the sockets

	access access // of Mode and Owner
}

// Check checks the keys, and reports errors at the table of the file. Relative paths begin in dir.
// Without a valid address, it returns false.
func (e *Endpoint) Check(dir string) (ok bool) {
	if e.Listen == "" {
		e.Table.Errorf("address", `missing; expected something like "*:8080"`)
		return false
	}
	var err error
	if e.Address, err = ParseAddress(e.Listen, dir); err != nil {
		e.Table.Errorf("address", "%v", err)
		return false
	}
	e.checkAccess()
	return true
}

// Socket is the listening socket of one address, with a descriptor for each loop. TCP sockets are
// separate, and the kernel spreads connections over them (SO_REUSEPORT); UNIX and inherited ones
// are one socket, shared by all loops. A Socket stops listening when it and the loops have closed
// their descriptors.
//
// Its JSON is for the new process of an upgrade.
type Socket struct {
	FDs     []int  `json:"fds"`
	Display string `json:"shown"` // the address with the port that the kernel chose

	// The file of a UNIX socket.
	Dev uint64 `json:"dev,omitempty"`
	Ino uint64 `json:"ino,omitempty"`

	own  int    // the first own of FDs are separate sockets, the others duplicates
	path string // of the file, for Remove; "": none, or another process has it

	Given net.Listener `json:"-"` // of the Endpoint; Remove closes it
}

// Open makes the descriptors of an endpoint for n loops. ours are the ports at which this process
// listens already.
func Open(e *Endpoint, n int, ours map[int]bool) (*Socket, error) {
	switch addr := e.Address; addr.Network {
	case "unix":
		return openUnix(addr.Name, e.access, n)
	case "systemd":
		inherited, err := Inherited()
		if err != nil {
			return nil, err
		}
		fds := inherited[addr.Name]
		if len(fds) == 0 {
			return nil, fmt.Errorf("listen %s: %s", addr, notInherited(inherited))
		}
		s := &Socket{Display: addr.String()}
		for _, fd := range fds {
			if err := s.add(fd, n); err != nil {
				s.Close()
				return nil, fmt.Errorf("listen %s: %w", addr, err)
			}
		}
		return s, nil
	case given:
		return openGiven(e, n)
	}
	return openTCP(e.Address.Name, n, ours[e.Address.Port()])
}

// add adds n duplicates of fd.
func (s *Socket) add(fd, n int) error {
	for range n {
		d, err := dup(fd)
		if err != nil {
			return err
		}
		s.FDs = append(s.FDs, d)
	}
	return nil
}

func dup(fd int) (int, error) {
	d, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	return d, os.NewSyscallError("fcntl", err)
}

// ForLoop returns duplicates for the i-th of n loops, which closes them. Several inherited sockets
// may have one name, for instance one for each address family.
func (s *Socket) ForLoop(i, n int) (fds []int, err error) {
	for ; i < len(s.FDs); i += n {
		fd, err := dup(s.FDs[i])
		if err != nil {
			CloseAll(fds)
			return nil, err
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// Listener returns a net.Listener of the first descriptor, for Go's own poller. Its Close leaves
// the Socket as it is.
func (s *Socket) Listener() (net.Listener, error) {
	fd, err := dup(s.FDs[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), s.Display)
	defer f.Close()
	return net.FileListener(f)
}

// Duplicate returns another Socket that listens to the same address.
func (s *Socket) Duplicate() (*Socket, error) {
	other := *s
	other.FDs = nil
	for _, fd := range s.FDs {
		if err := other.add(fd, 1); err != nil {
			other.Close()
			return nil, err
		}
	}
	return &other, nil
}

// ForProcess returns the Socket for a new process. give returns the numbers of the descriptors in
// that process.
func (s *Socket) ForProcess(give func(fd int) int) *Socket {
	h := &Socket{Display: s.Display, Dev: s.Dev, Ino: s.Ino}
	for _, fd := range s.FDs[:s.own] {
		h.FDs = append(h.FDs, give(fd))
	}
	return h
}

// Adopt prepares descriptors of another process for loops.
func (s *Socket) Adopt() error {
	s.own = len(s.FDs)
	for _, fd := range s.FDs {
		if err := adopt(fd); err != nil {
			return err
		}
	}
	return nil
}

// Spread makes an adopted socket one for e and n loops. If the other process had fewer loops, some
// loops share a socket: an added socket could get connections before it is certain that this
// process goes on. If it had more loops, some loops accept from several sockets: connections in the
// queue of a closed one would be lost.
func (s *Socket) Spread(e *Endpoint, n int) error {
	if _, err := s.SetAccess(e); err != nil {
		return err
	}
	for i := s.own; i < n; i++ {
		if err := s.add(s.FDs[i%s.own], 1); err != nil {
			s.Close()
			return err
		}
	}
	return nil
}

// SetAccess gives the file of a UNIX socket the mode and the owner that e has. undo gives it the
// earlier ones, which it has also after an error.
func (s *Socket) SetAccess(e *Endpoint) (undo func(), err error) {
	before, err := e.access.set(e.Address.Name, s)
	return func() { _, _ = before.set(e.Address.Name, s) }, err
}

// Port returns the port to which the socket is bound; 0: it has none.
func (s *Socket) Port() int {
	if len(s.FDs) == 0 {
		return 0
	}
	return int(loop.LocalAddr(s.FDs[0]).Port())
}

// Close closes the descriptors.
func (s *Socket) Close() {
	CloseAll(s.FDs)
	s.FDs = nil
}

// CloseAll closes descriptors.
func CloseAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// OwnFile makes Remove remove the file of a UNIX socket at a that another process has handed over.
func (s *Socket) OwnFile(a Address) {
	if a.Network == "unix" {
		s.path = a.Name
	}
}

// Remove removes the file of a UNIX socket, unless another file is in its place. It must be called
// before Close: once the socket is gone, another file can get its inode number. A net.Listener that
// the program has given is closed, and does the same.
func (s *Socket) Remove() {
	if s.Given != nil {
		_ = s.Given.Close() // the program may have closed it
	}
	var now unix.Stat_t
	if s.path != "" && unix.Lstat(s.path, &now) == nil && now.Dev == s.Dev && now.Ino == s.Ino {
		_ = os.Remove(s.path)
	}
}

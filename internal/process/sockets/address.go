package sockets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/base/confpath"
)

// Address is where a listener listens. Equal addresses are the same socket.
type Address struct {
	Network string // "tcp", "unix", "systemd", or "given" for a net.Listener
	// Name is host:port in one spelling, an absolute path, or a socket unit's FileDescriptorName.
	Name string

	// Index distinguishes addresses with the same host whose port the kernel chooses.
	Index int
}

// ParseAddress reads "host:port", "*:port", "[v6]:port", "unix:path" and "systemd:name". A host is
// an IP address, "*" or nothing for all of them, or localhost: a name that needs DNS could mean
// another address at each start. A relative path begins in dir.
func ParseAddress(s, dir string) (Address, error) {
	if path, ok, err := confpath.Socket(dir, s); ok {
		switch {
		case err != nil:
			return Address{}, err
		case path[0] == '@':
			return Address{}, fmt.Errorf(
				"expected the path of a file, found the abstract socket %s", path)
		}
		return Address{Network: "unix", Name: path}, nil
	}
	if name, ok := strings.CutPrefix(s, "systemd:"); ok {
		if name == "" {
			return Address{}, errors.New("expected the name of a socket behind systemd:")
		}
		return Address{Network: "systemd", Name: name}, nil
	}
	return parseTCP(s)
}

func parseTCP(s string) (Address, error) {
	if _, err := strconv.ParseUint(s, 10, 16); err == nil {
		return Address{}, fmt.Errorf("expected host:port, found %q "+
			"(for port %s of all addresses write \"*:%s\")", s, s, s)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if _, v6 := netip.ParseAddr(s); v6 == nil && strings.Contains(s, ":") {
			return Address{}, fmt.Errorf("expected [address]:port, found %q", s)
		}
		return Address{}, fmt.Errorf("expected host:port, unix:path or systemd:name, found %q", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Address{}, fmt.Errorf("port %q: expected a number from 0 to 65535", port)
	}
	switch host {
	case "", "*":
		host = "*"
	case "localhost":
		host = "127.0.0.1"
	default:
		addr, err := netip.ParseAddr(host)
		if err != nil {
			return Address{}, fmt.Errorf("host %q: expected an IP address, "+
				"* for all of them, or localhost", host)
		}
		host = addr.String()
	}
	return Address{Network: "tcp", Name: net.JoinHostPort(host, strconv.FormatUint(n, 10))}, nil
}

// Port returns the port of a TCP address, 0 if the kernel chooses it, and -1 for other addresses.
func (a Address) Port() int {
	if a.Network != "tcp" {
		return -1
	}
	_, port, _ := net.SplitHostPort(a.Name)
	n, _ := strconv.Atoi(port)
	return n
}

// Overlaps reports whether the same connection could be accepted at both addresses. An address that
// the service manager or the kernel chooses is not known yet, and overlaps with none.
func (a Address) Overlaps(b Address) bool {
	if a.Network == given {
		a, _ = ParseAddress(a.Name, "/")
	}
	if b.Network == given {
		b, _ = ParseAddress(b.Name, "/")
	}
	switch {
	case a.Network != b.Network:
		return false
	case a.Network == "unix":
		return filepath.Clean(a.Name) == filepath.Clean(b.Name)
	case a.Network != "tcp" || a.Port() == 0 || a.Port() != b.Port():
		return false
	}
	one, other := a.host(), b.host()
	return one == other || one.IsUnspecified() || other.IsUnspecified()
}

// host returns the IP address of a TCP address, :: for all.
func (a Address) host() netip.Addr {
	host, _, _ := net.SplitHostPort(a.Name)
	ip, err := netip.ParseAddr(host)
	if err != nil { // *
		return netip.IPv6Unspecified()
	}
	return ip.Unmap()
}

// Loopback reports whether only this machine can reach a TCP address.
func (a Address) Loopback() bool { return a.host().IsLoopback() }

// String gives the form that ParseAddress reads.
func (a Address) String() string {
	if a.Network == "tcp" || a.Network == given {
		return a.Name
	}
	return a.Network + ":" + a.Name
}

// ListenerName is the address as conn.Listener.Name: String, with the Index that several addresses
// need whose port the kernel chooses.
func (a Address) ListenerName() string {
	if a.Index == 0 {
		return a.String()
	}
	return a.String() + "#" + strconv.Itoa(a.Index)
}

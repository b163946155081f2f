package sockets_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

func openTest(t *testing.T, address string, n int) (*sockets.Socket, error) {
	t.Helper()
	addr := must.Get(sockets.ParseAddress(address, t.TempDir()))(t)
	s, err := sockets.Open(&sockets.Endpoint{Address: addr}, n, nil)
	if err == nil {
		t.Cleanup(s.Close)
	}
	return s, err
}

// All loops get sockets of the one port that the first got, and no other process gets it.
func TestTCPSockets(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "*:0", "[::1]:0"} {
		s, err := openTest(t, address, 3)
		if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT) {
			t.Logf("%s: no IPv6 here", address)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(s.FDs) != 3 {
			t.Errorf("%s: %d sockets, want 3", address, len(s.FDs))
		}
		_, port, _ := net.SplitHostPort(s.Display)
		for _, other := range []string{"127.0.0.1:" + port, "*:" + port} {
			if address == "[::1]:0" && other[0] == '1' {
				continue // the same port of another family
			}
			if _, err := openTest(t, other, 1); !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("%s beside %s: %v, want EADDRINUSE", other, s.Display, err)
			}
		}
		s.Close()
		if _, err := openTest(t, s.Display, 1); err != nil {
			t.Errorf("%s again: %v", s.Display, err)
		}
	}
}

// TestAcceptedInherit: what accepted sockets have to have, they inherit, wherever the listening one
// is from. Times of its own stay.
func TestAcceptedInherit(t *testing.T) {
	fdOf := func(c syscall.Conn) (n int) {
		raw := must.Get(c.SyscallConn())(t)
		must.Do(t, raw.Control(func(fd uintptr) { n = int(fd) }))
		return n
	}
	own := must.Get(openTest(t, "127.0.0.1:0", 1))(t)
	given, service := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t),
		must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer given.Close()
	defer service.Close()
	g := must.Get(sockets.Open(&sockets.Endpoint{Address: sockets.GivenAddress(given), Given: given},
		1, nil))(t)
	defer g.Close()
	fd := fdOf(service.(*net.TCPListener))
	must.Do(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1))
	must.Do(t, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 77))
	handed := &sockets.Socket{FDs: []int{fd}}
	must.Do(t, handed.Adopt())
	for name, row := range map[string]struct {
		fd, idle int
		addr     string
	}{
		"own":     {own.FDs[0], 60, own.Display},
		"given":   {g.FDs[0], 60, given.Addr().String()},
		"service": {fd, 77, service.Addr().String()},
	} {
		c := must.Get(net.Dial("tcp", row.addr))(t)
		defer c.Close()
		must.Do(t, unix.SetNonblock(row.fd, false)) // the connection may be on its way
		a, _, err := unix.Accept(row.fd)
		if err != nil {
			t.Fatal(name, err)
		}
		defer unix.Close(a)
		for _, o := range [][3]int{
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, row.idle},
			{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		} {
			if got, err := unix.GetsockoptInt(a, o[0], o[1]); err != nil || got != o[2] {
				t.Errorf("%s: option %d is %d, %v, want %d", name, o[1], got, err, o[2])
			}
		}
	}
}

// TestPortInUseWithoutIPv6: another server of the same user, which shares its port with all that
// want it, keeps it from this one, also where that cannot look at both families at once.
func TestPortInUseWithoutIPv6(t *testing.T) {
	other := must.Get(loop.Listen("tcp", "0.0.0.0:0", true))(t)
	t.Cleanup(func() { unix.Close(other) })
	const none = 63 // no family of sockets
	*sockets.INET6 = none
	defer func() { *sockets.INET6 = unix.AF_INET6 }()
	_, port, _ := net.SplitHostPort(loop.LocalAddr(other).String())
	for _, host := range []string{"*:", "127.0.0.1:"} {
		if _, err := openTest(t, host+port, 1); !errors.Is(err, unix.EADDRINUSE) {
			t.Errorf("%s: %v, want EADDRINUSE", host, err)
		}
	}
}

func TestUnixSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	exists := func() bool { _, err := os.Lstat(path); return err == nil }

	s := must.Get(openTest(t, "unix:"+path, 2))(t)
	if _, err := openTest(t, "unix:"+path, 2); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("beside a live one: %v, want EADDRINUSE", err)
	}

	// There is a file and no listener, as after a kill.
	s.Close()
	next, err := openTest(t, "unix:"+path, 2)
	if err != nil {
		t.Fatalf("over a stale file: %v", err)
	}

	// Another server has taken the path while this one runs.
	must.Do(t, os.Remove(path))
	third := must.Get(openTest(t, "unix:"+path, 2))(t)
	next.Remove()
	if !exists() {
		t.Error("a server has removed the file of another one")
	}
	third.Remove()
	if exists() {
		t.Error("the file is still there")
	}
	third.Remove() // twice is no harm
}

// Only a socket may be taken for stale; a connection to anything else is refused as well.
func TestUnixSocketOverFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	must.Write(t, path, "precious")
	if _, err := openTest(t, "unix:"+path, 1); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("got %v, want EADDRINUSE", err)
	}
	link := path + "l"
	must.Do(t, os.Symlink(path, link))
	if _, err := openTest(t, "unix:"+link, 1); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a symbolic link: got %v, want EADDRINUSE", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file is now %q, %v", b, err)
	}
}

func TestInheritedNotForUs(t *testing.T) {
	t.Setenv("LISTEN_FDS", "1")
	t.Setenv("LISTEN_PID", "1")
	t.Setenv("LISTEN_FDNAMES", "web")
	if got, err := sockets.Inherited(); err != nil || got != nil {
		t.Errorf("took the sockets of another process: %v, %v", got, err)
	}
	if os.Getenv("LISTEN_FDS") != "" {
		t.Error("LISTEN_FDS is left for children")
	}
}

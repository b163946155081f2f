package sockets_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/sockets"
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
		_, port, _ := net.SplitHostPort(s.Shown)
		for _, other := range []string{"127.0.0.1:" + port, "*:" + port} {
			if address == "[::1]:0" && other[0] == '1' {
				continue // the same port of another family
			}
			if _, err := openTest(t, other, 1); !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("%s beside %s: %v, want EADDRINUSE", other, s.Shown, err)
			}
		}
		s.Close()
		if _, err := openTest(t, s.Shown, 1); err != nil {
			t.Errorf("%s again: %v", s.Shown, err)
		}
	}
}

// TestPortInUseWithoutIPv6: another server of the same user, which shares its port with all that want
// it, keeps it from this one, also where that cannot look at both families at once.
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

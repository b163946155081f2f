package server

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAccessOfOwnSocket: mode and owner are for the socket that was made, and not for what has come
// into its place, such as a link to a file that only root may change.
func TestAccessOfOwnSocket(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(in("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var socket, other unix.Stat_t
	for name, st := range map[string]*unix.Stat_t{"socket": &socket, "other": &other} {
		l, err := net.Listen("unix", in(name))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := unix.Lstat(in(name), st); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"to file": "file", "to socket": "socket"} {
		if err := os.Symlink(to, in(name)); err != nil {
			t.Fatal(err)
		}
	}
	a := access{mode: 0o666, chmod: true}
	for _, row := range []struct {
		path string
		made *unix.Stat_t
		ok   bool
	}{
		{"file", nil, false}, {"to file", nil, false}, {"to socket", nil, false},
		{"to socket", &socket, false}, {"socket", &other, false},
		{"socket", &socket, true}, {"other", nil, true},
	} {
		err := a.set(in(row.path), row.made)
		info, err2 := os.Stat(in(row.path))
		if err2 != nil {
			t.Fatal(err2)
		}
		if (err == nil) != row.ok || (info.Mode().Perm() == 0o666) != row.ok {
			t.Errorf("%s: %v, %v, want it changed: %v", row.path, err, info.Mode(), row.ok)
		}
	}
}

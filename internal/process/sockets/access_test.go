package sockets_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/test/must"
	"golang.org/x/sys/unix"
)

// TestAccessOfOwnSocket: mode and owner are for the socket that was made, and not for what has come
// into its place, such as a link to a file that only root may change.
func TestAccessOfOwnSocket(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.Write(t, in("file"), "")
	var socket, other sockets.Socket
	for name, made := range map[string]*sockets.Socket{"socket": &socket, "other": &other} {
		l := must.Get(net.Listen("unix", in(name)))(t)
		defer l.Close()
		var st unix.Stat_t
		must.Do(t, unix.Lstat(in(name), &st))
		made.Dev, made.Ino = st.Dev, st.Ino
	}
	for name, to := range map[string]string{"to file": "file", "to socket": "socket"} {
		must.Do(t, os.Symlink(to, in(name)))
	}
	for _, row := range []struct {
		path string
		made *sockets.Socket
		ok   bool
	}{
		{"file", nil, false}, {"to file", nil, false}, {"to socket", nil, false},
		{"to socket", &socket, false}, {"socket", &other, false},
		{"socket", &socket, true}, {"other", nil, true},
	} {
		e := sockets.Endpoint{Address: sockets.Address{Network: "unix", Name: in(row.path)}}
		e.Chmod(0o666)
		_, err := row.made.SetAccess(&e)
		info, err2 := os.Stat(in(row.path))
		if err2 != nil {
			t.Fatal(err2)
		}
		if (err == nil) != row.ok || (info.Mode().Perm() == 0o666) != row.ok {
			t.Errorf("%s: %v, %v, want it changed: %v", row.path, err, info.Mode(), row.ok)
		}
	}
}

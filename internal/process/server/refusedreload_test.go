package server_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestRefusedReloadLeavesNothing: what a reload has done before it is refused is undone: modes of
// sockets, sockets, folders, files of logs.
func TestRefusedReloadLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	text := func(mode, more string) string {
		var b strings.Builder
		b.WriteString(more)
		for _, name := range []string{"a", "b", "c"} {
			fmt.Fprintf(&b, "[[listener]]\naddress = \"unix:%s\"\nmode = %q\n", in(name), mode)
		}
		return b.String() + route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\ncache = true\n")
	}
	src := source()
	src.File = filepath.Join(dir, "lwango.conf")
	s := serve(t, src, text("0600", ""))

	// The file of one socket is exchanged: its mode cannot be set, and those before it are set by
	// then.
	must.Do(t, os.Remove(in("b")))
	must.Write(t, in("b"), "")
	before := listing(t, dir)
	s.write(text("0666", "[cache]\ndisk = \"kept\"\n[access_log]\npath = \"access.log\"\n"+
		"[debug]\naddress = \"unix:debug\"\n[[listener]]\naddress = \"unix:new\"\n"))
	if err := s.Reload(); err == nil {
		t.Fatal("the reload is not refused")
	}
	if after := listing(t, dir); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
	if info := must.Get(os.Stat(in("a")))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	must.Do(t, os.Remove(in("b")))
}

// listing returns names and modes of what is in a folder.
func listing(t *testing.T, dir string) string {
	var b strings.Builder
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && path != dir {
			fmt.Fprintln(&b, filepath.Base(path), info.Mode())
		}
		return err
	}))
	return b.String()
}

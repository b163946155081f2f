package sysio_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/links"
	"github.com/lwango/lwango/internal/test/must"
	"golang.org/x/sys/unix"
)

// TestFolder: a Folder tells what lies beneath it, with openat2 and without it, and nothing else.
func TestFolder(t *testing.T) {
	root := links.Folder(t)
	for _, refused := range []bool{false, true} {
		f := must.Get(sysio.OpenFolder(root))(t)
		if refused {
			must.Do(t, f.Refuse(root))
		}
		for name, want := range map[string]uint32{
			"a.php": unix.S_IFREG, "inside.php": unix.S_IFREG, "sub": unix.S_IFDIR, "fifo": unix.S_IFIFO,
			"b.php": 0, "outside.php": 0, "absolute.php": 0,
			"up/out.php": 0,
			"round":      0,
			"a.php/b":    0, "../out.php": 0, "a\x00.php": 0,
			"..": 0, "sub/b.php": unix.S_IFREG, "same": unix.S_IFDIR, "same/b.php": unix.S_IFREG,
			"sub/back.php": unix.S_IFREG, "sub/out.php": 0, "sub/c.php": 0,
			"folder": 0, "magic": 0, "magic/etc/passwd": 0,
			"sub/" + strings.Repeat("n", 300): 0, "sub/a\x00.php": 0,
			strings.Repeat("n", 300): 0,
		} {
			got, err := f.Mode(name)
			if got &= unix.S_IFMT; got != want || (err == nil) != (want != 0) {
				t.Errorf("refused %v, %.20q: %#o, %v, want %#o", refused, name, got, err, want)
			}
			cached, err, known := f.CachedMode(name)
			if cached &= unix.S_IFMT; known && (cached != want || (err == nil) != (want != 0)) {
				t.Errorf("%.20q: cached %#o, %v, want %#o", name, cached, err, want)
			}
			if refused && known {
				t.Errorf("%.20q: known without openat2", name)
			}
			if !refused && !known && name == "sub/b.php" {
				t.Logf("the kernel does not tell what it has in memory")
			}
		}
		f.Close()
		for _, name := range []string{"a.php", "sub/b.php"} {
			if _, err := f.Mode(name); err == nil || os.IsNotExist(err) {
				t.Errorf("a closed folder says of %s: %v", name, err)
			}
		}
	}
	if _, err := sysio.OpenFolder(filepath.Join(root, "a.php")); err == nil {
		t.Error("a file is opened as a folder")
	}
}

// TestModeAllocatesNothing: each request for a script asks for one.
func TestModeAllocatesNothing(t *testing.T) {
	if !sysio.Direct {
		t.Skip("the system call has another struct here")
	}
	f := must.Get(sysio.OpenFolder(links.Folder(t)))(t)
	must.Get(f.Mode("a.php"))(t)
	if n := testing.AllocsPerRun(100, func() { _, _ = f.Mode("a.php") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

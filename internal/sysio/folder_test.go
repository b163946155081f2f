package sysio_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/sysio"
	"golang.org/x/sys/unix"
)

// TestFolder: a Folder tells what lies beneath it, with openat2 and without it, and nothing else.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "sub"), 0o755),
		os.WriteFile(filepath.Join(root, "a.php"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "out.php"), nil, 0o644),
		os.Symlink("a.php", filepath.Join(root, "inside.php")),
		os.Symlink("../out.php", filepath.Join(root, "outside.php")),
		os.Symlink(filepath.Join(dir, "out.php"), filepath.Join(root, "absolute.php")),
		os.Symlink("..", filepath.Join(root, "up")),
		os.Symlink("round", filepath.Join(root, "round")),
		os.WriteFile(filepath.Join(root, "sub", "b.php"), nil, 0o644),
		os.Symlink("sub", filepath.Join(root, "same")),
		os.Symlink("../a.php", filepath.Join(root, "sub", "back.php")),
		os.Symlink("../../out.php", filepath.Join(root, "sub", "out.php")),
		os.Symlink("/proc/self/root", filepath.Join(root, "magic")),
		os.Mkdir(filepath.Join(dir, "other"), 0o755),
		os.Symlink("../other", filepath.Join(root, "folder")),
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, refused := range []bool{false, true} {
		f, err := sysio.OpenFolder(root)
		if err != nil {
			t.Fatal(err)
		}
		if refused {
			if err := f.Refuse(root); err != nil {
				t.Fatal(err)
			}
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

package cgi_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/cgi"
	"github.com/lwango/lwango/internal/sysio"
)

func TestBeneath(t *testing.T) {
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
	folder, err := sysio.OpenFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]cgi.Entry{
		"a.php": cgi.Regular, "inside.php": cgi.Regular, "sub": cgi.Folder, "fifo": cgi.Special,
		"b.php": cgi.Absent, "outside.php": cgi.Absent, "absolute.php": cgi.Absent,
		"up/out.php": cgi.Absent,
		"round":      cgi.Absent,
		"a.php/b":    cgi.Absent, "../out.php": cgi.Absent, "a\x00.php": cgi.Absent,
		"..": cgi.Absent, "sub/b.php": cgi.Regular, "same": cgi.Folder, "same/b.php": cgi.Regular,
		"sub/back.php": cgi.Regular, "sub/out.php": cgi.Absent, "sub/c.php": cgi.Absent,
		"folder": cgi.Absent, "magic": cgi.Absent, "magic/etc/passwd": cgi.Absent,
		"sub/" + strings.Repeat("n", 300): cgi.Absent, "sub/a\x00.php": cgi.Absent,
		strings.Repeat("n", 300): cgi.Absent,
	} {
		if got, err := (cgi.Beneath{Folder: folder}).Stat(name); got != want || err != nil {
			t.Errorf("%.20q: %d, %v, want %d", name, got, err, want)
		}
	}
}

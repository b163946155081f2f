package cgi_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/cgi"
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
		syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for name, want := range map[string]cgi.Entry{
		"a.php": cgi.Regular, "inside.php": cgi.Regular, "sub": cgi.Folder, "fifo": cgi.Special,
		"b.php": cgi.Absent, "outside.php": cgi.Absent, "absolute.php": cgi.Absent,
		"up/out.php": cgi.Absent,
		"round":      cgi.Absent,
		"a.php/b":    cgi.Absent, "../out.php": cgi.Absent, "a\x00.php": cgi.Absent,
		strings.Repeat("n", 300): cgi.Absent,
	} {
		if got, err := (cgi.Beneath{Root: r}).Stat(name); got != want || err != nil {
			t.Errorf("%.20q: %d, %v, want %d", name, got, err, want)
		}
	}
	r.Close()
	if _, err := (cgi.Beneath{Root: r}).Stat("a.php"); err == nil {
		t.Error("a closed root says that there is nothing")
	}
}

// Package links makes a folder with symbolic links, for tests of what must not lead out of it.
package links

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Folder makes a folder with files, a FIFO, and links that stay in it, lead out of it, or lead
// nowhere, and returns its path. Beside it there are a file out.php and a folder other.
func Folder(t testing.TB) (root string) {
	t.Helper()
	dir := t.TempDir()
	root = filepath.Join(dir, "root")
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
	return root
}

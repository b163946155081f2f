// Package files has what a server of files is tested with: a folder with one of everything, and
// what requests for it must get.
//
//	tree.go    the folder
//	paths.go   which file, if any; methods
//	ranges.go  conditions and ranges
package files

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/must"
)

// Modified is the time of all files of the tree; ETag and LastModified are what a.txt has for it.
var Modified = time.Date(2024, 3, 1, 12, 0, 0, 123456789, time.UTC)

const (
	ETag         = `"17b8a2335fec4d15-a"`
	LastModified = "Fri, 01 Mar 2024 12:00:00 GMT"
)

// Big is longer than what is sent without sendfile, and has no two equal pieces.
var Big = func() string {
	var b strings.Builder
	for i := 0; b.Len() < 100_000; i++ {
		b.WriteString(strings.Repeat(string(rune('a'+i%26)), i%7+1))
	}
	return b.String()[:100_000]
}()

// Tree makes a folder with one of everything and returns its path.
func Tree(t testing.TB) string {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "root")
	for name, text := range map[string]string{
		"index.html":               "<h1>root</h1>",
		"a.txt":                    "0123456789",
		"A.HTML":                   "<h1>upper</h1>",
		"empty.txt":                "",
		"small.bin":                Big[:16<<10],
		"big.bin":                  Big,
		"noextension":              "?",
		"sub/index.html":           "<h1>sub</h1>",
		"sub/page.html":            "<h1>page</h1>",
		"sub/default.htm":          "<h1>default</h1>",
		"second/default.htm":       "<h1>second</h1>",
		"noindex/x.txt":            "x",
		"folderindex/index.html/x": "x",
		".hidden":                  "secret",
		".git/config":              "secret",
		"sub/.env":                 "secret",
		".well-known/token":        "token",
		".well-known/.secret":      "secret",
		"sub/.well-known/token":    "secret",
		"a b/é?.txt":               "odd",
		"with\\backslash/x":        "x",
		"track.gpx":                "<gpx/>",
		"../outside.txt":           "secret",
		"../outside/x.txt":         "secret",
	} {
		path := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o644))
		must.Do(t, os.Chtimes(path, Modified, Modified))
	}
	must.Do(t, os.Symlink("a.txt", filepath.Join(root, "link-file")))
	must.Do(t, os.Symlink("sub", filepath.Join(root, "link-folder")))
	must.Do(t, os.Symlink("../sub/page.html", filepath.Join(root, "noindex/link-up")))
	must.Do(t, os.Symlink("../outside.txt", filepath.Join(root, "link-out")))
	must.Do(t, os.Symlink("../outside", filepath.Join(root, "link-out-folder")))
	must.Do(t, os.Symlink(filepath.Join(root, "a.txt"), filepath.Join(root, "link-absolute")))
	must.Do(t, os.Symlink("link-loop", filepath.Join(root, "link-loop")))
	must.Do(t, os.Symlink("nothing", filepath.Join(root, "link-broken")))
	must.Do(t, os.Symlink("/proc/self/root/etc/passwd", filepath.Join(root, "link-magic")))
	must.Do(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	must.Do(t, os.Symlink("/dev/null", filepath.Join(root, "link-device")))
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must.Do(t, err)
	defer unix.Close(socket)
	must.Do(t, unix.Bind(socket, &unix.SockaddrUnix{Name: filepath.Join(root, "socket")}))
	return root
}

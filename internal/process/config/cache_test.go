package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// TestCheckCacheFolder: -t finds what would stop a start because of the cache's folder. What only
// reads a configuration does not look at it.
func TestCheckCacheFolder(t *testing.T) {
	dir := t.TempDir()
	for path := dir; path != os.TempDir() && path != "/"; path = filepath.Dir(path) {
		must.Do(t, os.Chmod(path, 0o755))
	}
	for name, mode := range map[string]os.FileMode{"shut": 0o555, "open": 0o777} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		must.Do(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	must.Write(t, filepath.Join(dir, "file"), "")
	must.Do(t, os.Symlink("none", filepath.Join(dir, "astray")))
	const confine = "[confine]\nlandlock = true\n"
	for _, test := range []struct{ more, disk, want, confined string }{
		{"", "none/c", "there is no folder DIR/none", ""},
		{"", "file", "DIR/file is no folder", "DIR/file is no folder"},
		{"", "file/c", "lstat DIR/file/c: not a directory", "lstat DIR/file/c: not a directory"},
		{"", "shut/c", "mkdir DIR/shut/c: permission denied", ""},
		{"", "shut", "open DIR/shut: permission denied", "open DIR/shut: permission denied"},
		{"", "astray", "open DIR/astray: no such file or directory",
			"open DIR/astray: no such file or directory"},
		{"", "open/c", "", ""},
		{"", "open", "", ""},
		{confine, "shut", "", "open DIR/shut: permission denied"}, // another user looks into it
		{confine, "shut/c", "mkdir DIR/shut/c: permission denied", ""},
	} {
		c := must.Get(source().Parse(filepath.Join(dir, "t.conf"),
			"[cache]\ndisk = '"+test.disk+"'\n"+test.more+
				"[[site]]\n[[site.route]]\nprefix = '/'\nmodule = 'proxy'\naddress = '127.0.0.1:1'\ncache = "+
				"true\n"))(t)
		for confined, want := range map[bool]string{false: test.want, true: test.confined} {
			if want == "" {
				want = "<nil>"
			} else {
				want = "DIR/t.conf:2: cache.disk: " + want
			}
			errs := make(chan error)
			go func() {
				runtime.LockOSThread() // and ends with the goroutine
				if os.Geteuid() == 0 {
					const nobody, same = 65534, ^uintptr(0)
					if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, nobody, same); errno != 0 {
						t.Errorf("setresuid: %v", errno)
					}
				}
				errs <- c.CheckCacheFolder(confined)
			}()
			if got := strings.ReplaceAll(fmt.Sprint(<-errs), dir, "DIR"); got != want {
				t.Errorf("%q%s, confined %v: got\n%s\nwant\n%s", test.more, test.disk, confined, got, want)
			}
		}
	}
}

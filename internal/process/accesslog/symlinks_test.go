package accesslog_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// TestRootFollowsOwnLinks: root opens a log by links that root has made, and by none of others, be
// it in the place of the log or of a folder on the way.
func TestRootFollowsOwnLinks(t *testing.T) {
	ci.Root(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"logs", "secret"} {
		must.Do(t, os.Mkdir(in(name), 0o755))
	}
	const nobody = 65534
	for name, link := range map[string]struct {
		to    string
		owner int
	}{
		"logs/roots": {"../secret/log", 0}, "logs/theirs": {"../secret/log", nobody},
		"logs/absolute": {in("secret/log"), 0}, "logs/circle": {"circle", 0},
		"roots": {"logs/../secret/", 0}, "theirs": {"secret", nobody},
		"logs/by theirs": {"../theirs/log", 0}, "logs/stdout": {"/dev/stdout", 0},
	} {
		must.Do(t, os.Symlink(link.to, in(name)))
		must.Do(t, os.Lchown(in(name), link.owner, link.owner))
	}
	must.Write(t, in("logs/log"), "")
	const theirs = "user 65534 has made the link"
	for path, want := range map[string]string{
		"logs/log": "", "logs//../logs/./log": "", "logs/roots": "", "logs/absolute": "", "roots/log": "",
		"logs/theirs": theirs, "theirs/log": theirs, "logs/by theirs": theirs,
		"logs/circle": "too many levels", "none/log": "no such file", "logs/log/x": "not a directory",
		"logs/": "is a directory",
	} {
		f, err := accesslog.OpenFile(dir + "/" + path)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := io.WriteString(f, "x"); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		f.Close()
	}
	for name, want := range map[string]string{"logs/log": "xx", "secret/log": "xxx"} {
		if got, err := os.ReadFile(in(name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	if f, err := accesslog.OpenFile("/dev/stdout"); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
}

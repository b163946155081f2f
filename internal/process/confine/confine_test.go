package confine_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/confine"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// probe runs testdata/probe, which is built without cgo, as programs must be that confine
// themselves, and returns the lines that it prints.
func probe(t *testing.T, args ...string) []string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "confine"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "probe")
	build := exec.Command("go", "build", "-o", program, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, name := range []string{"read", "write"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, name), 0o777))
	}
	for _, name := range []string{"file", "read/file"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o644))
	}
	must.Do(t, os.Symlink("../file", filepath.Join(dir, "read/link")))
	for _, name := range []string{"", "write"} { // whatever the umask is
		must.Do(t, os.Chmod(filepath.Join(dir, name), 0o777))
	}
	out, err := exec.Command(program, append([]string{dir}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("probe: %v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

var filesTried = []string{
	"read a listed folder: yes", "read beside it: EACCES", "follow a link out: EACCES",
	"write to a folder to read: EACCES", "write: yes", "rename: yes", "remove: yes",
	"make a socket: yes", "execute: EACCES",
}

var callsTried = []string{
	"start a process: EPERM", "open a packet socket: EPERM", "open a TCP socket: yes",
	"map executable memory: EPERM", "make memory executable: EPERM", "unshare: EPERM",
	"io_uring: EPERM", "clone3: ENOSYS", "a newer call: ENOSYS",
}

// TestThreads: what a process gives up, all of its threads have given up, and so have those that it
// starts later. The rest of what it does goes on.
func TestThreads(t *testing.T) {
	for _, seccomp := range []bool{false, true} {
		var want, args []string
		if confine.Landlock() > 0 {
			want = slices.Clone(filesTried)
		} else if ci.Enabled() {
			t.Fatal("the kernel has no Landlock")
		}
		filter := "0"
		if seccomp {
			want, args, filter = append(want, callsTried...), []string{"seccomp"}, "2"
		}
		got := probe(t, args...)
		if !slices.Equal(got[:len(got)-1], want) {
			t.Errorf("tried:\n%s\nwant:\n%s", strings.Join(got[:len(got)-1], "\n"),
				strings.Join(want, "\n"))
		}
		const none = "0000000000000000"
		is := "CapInh " + none + ", CapPrm " + none + ", CapEff " + none
		if os.Geteuid() == 0 {
			is = "threads: Uid 65534 65534 65534 65534, Gid 65533 65533 65533 65533, Groups 1 2, " +
				is + ", CapBnd " + none
		}
		rest := "CapAmb " + none + ", NoNewPrivs 1, Seccomp " + filter
		if line := got[len(got)-1]; !strings.Contains(line, is) || !strings.HasSuffix(line, rest) {
			t.Errorf("%s\nwant %s, %s", line, is, rest)
		}
	}
}

// TestChoices: where a link chooses among what is below its own folder, all of that is read; where
// it leads elsewhere, nothing more is.
func TestChoices(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"app/releases/1/www", "other"} {
		must.Do(t, os.MkdirAll(in(name), 0o755))
	}
	for name, to := range map[string]string{"app/current": "releases/1", "app/stable": "current",
		"app/absolute": in("app/releases/1"), "app/out": "../other", "app/beside": "../app",
		"app/dangling": "none", "way": "app"} {
		must.Do(t, os.Symlink(to, in(name)))
	}
	for _, test := range []struct {
		path string
		want []string
	}{
		{in("app/current"), []string{in("app")}},
		{in("app/current/www/"), []string{in("app")}},
		{in("app/stable/www/none"), []string{in("app")}},
		{in("app/absolute"), []string{in("app")}},
		{in("way/current"), []string{dir, in("app")}},
		{in("app/releases/1"), nil},
		{in("app/out"), nil},
		{in("app/beside"), nil},
		{in("app/dangling"), nil},
		{"/proc", nil},
	} {
		if got := confine.Choices(test.path); !slices.Equal(got, test.want) {
			t.Errorf("Choices(%s) = %q, want %q", test.path, got, test.want)
		}
	}
}

// TestFolders: a file is read by way of its folder, and of that to which a link leads, also where
// the file is still to come.
func TestFolders(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"live", "archive"} {
		must.Do(t, os.Mkdir(in(name), 0o755))
	}
	must.Write(t, in("archive/key1"), "")
	for name, to := range map[string]string{"live/key": "../archive/key1",
		"live/later": in("archive/link"), "archive/link": "../live/../live/soon",
		"live/circle": "circle"} {
		must.Do(t, os.Symlink(to, in(name)))
	}
	for _, test := range []struct {
		path string
		want []string
	}{
		{in("live"), []string{in("live")}},
		{in("live/key"), []string{in("live"), in("archive")}},
		{in("archive/key1"), []string{in("archive")}},
		{in("live/none"), []string{in("live")}},
		{in("archive/none"), []string{in("archive")}},
		{in("archive/link"), []string{in("archive"), in("live")}},
		{in("live/later"), []string{in("live")}},
		{in("live/circle"), []string{in("live")}},
		{in("none/none"), []string{in("none")}},
	} {
		if got := confine.Folders(test.path); !slices.Equal(got, test.want) {
			t.Errorf("Folders(%s) = %q, want %q", test.path, got, test.want)
		}
	}
}

package accesslog_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestFollows: a file that was moved away or removed is made anew, without a signal.
func TestFollows(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	a, text := open(t, path)
	defer a.Close()
	lp := new(loop.Loop)
	for i, away := range []func(){
		func() {},
		func() { os.Rename(path, path+".1") },
		func() { os.Remove(path) },
		func() { // logrotate's "create"
			os.Rename(path, path+".2")
			os.WriteFile(path, nil, 0o600)
		},
	} {
		away()
		// The writer looks once a second at most.
		wait.Until(t, "the file is there", func() bool {
			a.LogRequest(lp, entry())
			a.Flush()
			b, _ := os.ReadFile(path)
			return len(b) > 0
		})
		if n := strings.Count(text.String(), "reopened, the file was moved away"); n != i {
			t.Errorf("told %d times after %d moves:\n%s", n, i, text.String())
		}
	}

	// If there is no way to make it, the lines go on to the old file, and that is said once.
	old := must.Get(os.Open(path))(t)
	defer old.Close()
	size := func() int64 {
		at, _ := old.Stat()
		return at.Size()
	}
	os.Remove(path)
	must.Do(t, os.Symlink("none/log", path))
	before := size()
	wait.Until(t, "it is said", func() bool {
		a.LogRequest(lp, entry())
		a.Flush()
		return strings.Contains(text.String(), "cannot be reopened, the old file stays")
	})
	if size() == before {
		t.Error("the old file gets no lines")
	}
}

// TestDiskFull: what a full disk does not take is counted, said once, and again when there
// is room; then a line begins where a line begins.
func TestDiskFull(t *testing.T) {
	ci.Root(t) // who may mount
	dir := t.TempDir()
	must.Do(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path := filepath.Join(dir, "log")
	a, text := open(t, path)
	lp := new(loop.Loop)
	total := 0
	say := func(n int) {
		for range n {
			a.LogRequest(lp, entry())
		}
		total += n
		a.Flush()
	}
	for range 5 {
		say(400)
	}
	if n := strings.Count(text.String(), "cannot be written"); n != 1 ||
		!strings.Contains(text.String(), "no space left on device") {
		t.Errorf("said %d times:\n%s", n, text.String())
	}
	full := must.Read(t, path)
	must.Do(t, os.Truncate(path, 0)) // as logrotate's copytruncate
	say(1)
	say(10)
	a.Close()
	all := full + must.Read(t, path)
	line := regexp.MustCompile(`(?m)^192\.0\.2\.7 - - \[.*\] "GET /a\?b HTTP/1\.1" 200 12 "-" "-"$`)
	whole := len(line.FindAllString(all, -1))
	lost := regexp.MustCompile(`written again.* lost=(\d+)\n`).FindStringSubmatch(text.String())
	if lost == nil || fmt.Sprint(total-whole) != lost[1] {
		t.Errorf("%d of %d lines are there, lost: %v\n%s", whole, total, lost, text.String())
	}
}

// TestTorn: on a device that is always full nothing is written, and the next file begins
// with a whole line.
func TestTorn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	must.Do(t, os.Symlink("/dev/full", path))
	a, text := open(t, path)
	lp := new(loop.Loop)
	for range 3 {
		a.LogRequest(lp, entry())
		a.Flush()
	}
	os.Remove(path)
	wait.Until(t, "it is written again", func() bool {
		a.LogRequest(lp, entry())
		a.Flush()
		return strings.Contains(text.String(), "written again")
	})
	a.Close()
	if got := must.Read(t, path); !strings.HasPrefix(got, "192.0.2.7 ") {
		t.Errorf("%q", got)
	}
	if n := strings.Count(text.String(), "cannot be written"); n != 1 {
		t.Errorf("said %d times:\n%s", n, text.String())
	}
}

// TestUnreadPipe: a pipe that nothing reads is an error at the start, and not a start that
// waits.
func TestUnreadPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(path, 0o600))
	began := time.Now()
	_, err := tryOpen(t, path, slog.New(slog.DiscardHandler))
	if err == nil || time.Since(began) > wait.Patience {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

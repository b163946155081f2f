package confpath_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/test/must"
)

// TestRead: what is no file of a fitting size is an error, and holds nobody up.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must.Write(t, at("file"), "12345")
	must.Do(t, syscall.Mkfifo(at("fifo"), 0o600))
	for name, to := range map[string]string{"link": "file", "loop": "loop", "pipe": "fifo"} {
		must.Do(t, os.Symlink(to, at(name)))
	}
	for path, want := range map[string]string{
		at("file"): "12345", at("link"): "12345",
		at("none"): "no such file", at("loop"): "too many levels of symbolic links",
		dir: "not a regular file", "/dev/zero": "not a regular file",
		at("fifo"): "not a regular file", at("pipe"): "not a regular file",
	} {
		text, err := confpath.Read(path, 5)
		if err != nil && !strings.Contains(err.Error(), path+": "+want) ||
			err == nil && string(text) != want {
			t.Errorf("%s: %q, %v, want %q", path, text, err, want)
		}
	}
	if _, err := confpath.Read(at("file"), 4); err == nil ||
		!strings.Contains(err.Error(), "longer than") {
		t.Errorf("a file that is too long: %v", err)
	}
}

// TestReadOnce: a pipe is read to its end, and is an error when that has been done already, or
// nobody writes to it.
func TestReadOnce(t *testing.T) {
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "file")
	must.Write(t, file, "")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	r, w := must.Pipe(t)
	pipe := fmt.Sprintf("/proc/self/fd/%d", r.Fd())
	go func() {
		w.WriteString("12")
		w.WriteString("345")
		w.Close()
	}()
	for _, row := range []struct{ path, want string }{
		{pipe, "12345"},
		{pipe, "error: " + pipe + ": an empty pipe; what was in it can be read once only"},
		{fifo, "error: " + fifo + ": an empty pipe; what was in it can be read once only"},
		{file, ""},
		{os.DevNull, ""},
		{"/dev/zero", "error: /dev/zero: longer than 0 KiB"},
		{dir, "error: read " + dir + ": is a directory"},
		{filepath.Join(dir, "none"), "error: open " + dir + "/none: no such file or directory"},
	} {
		text, err := confpath.ReadOnce(row.path, 5)
		got := string(text)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.path, got, row.want)
		}
	}
}

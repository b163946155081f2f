package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { program.Main(m, main) }

const patience = wait.Patience

// client is one that follows the file.
type client struct {
	t     *testing.T
	lines *bufio.Reader
	leave context.CancelFunc
}

// follow asks for the file, and returns when the answer has begun.
func follow(t *testing.T, s *program.Server) *client {
	t.Helper()
	ctx, leave := context.WithTimeout(t.Context(), patience)
	t.Cleanup(leave)
	resp := request(t, ctx, "GET", s)
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status)
	}
	return &client{t, bufio.NewReader(resp.Body), leave}
}

func request(t *testing.T, ctx context.Context, method string, s *program.Server) *http.Response {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, method, "http://"+s.Address+"/tail", nil))(t)
	resp := must.Get(http.DefaultClient.Do(req))(t)
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// gets fails the test unless these lines come next.
func (c *client) gets(lines ...string) {
	c.t.Helper()
	for _, want := range lines {
		if got, err := c.lines.ReadString('\n'); got != want+"\n" || err != nil {
			c.t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

// ends fails the test unless the answer is complete now.
func (c *client) ends() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.lines); len(rest) > 0 || err != nil {
		c.t.Fatalf("got %q, %v, want the end", rest, err)
	}
}

// write writes a file anew, or appends to it.
func write(t *testing.T, path string, flag int, text string) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_WRONLY|os.O_CREATE|flag, 0o600))(t)
	must.Get(f.WriteString(text))(t)
	must.Do(t, f.Close())
}

func appendTo(t *testing.T, path, text string) { t.Helper(); write(t, path, os.O_APPEND, text) }

// start starts the program with a file that has a line.
func start(t *testing.T) (s *program.Server, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "some.log")
	appendTo(t, path, "old\n")
	return program.Start(t, "-file", path), path
}

// Each client gets what is appended after it has come, and loses none of it.
func TestFollow(t *testing.T) {
	s, path := start(t)
	one := follow(t, s)
	appendTo(t, path, "first\n")
	one.gets("first")
	two := follow(t, s)
	appendTo(t, path, "sec")
	appendTo(t, path, "ond\nthird\n")
	one.gets("second", "third")
	two.gets("second", "third")

	var many []string
	for range 1000 {
		many = append(many, strings.Repeat("x", 99))
	}
	appendTo(t, path, strings.Join(many, "\n")+"\n")
	one.gets(many...)
	two.gets(many...)
}

func TestTruncated(t *testing.T) {
	s, path := start(t)
	c := follow(t, s)
	appendTo(t, path, "first\n")
	c.gets("first")
	write(t, path, os.O_TRUNC, "new\n")
	c.gets("new")
	appendTo(t, path, "newer\n")
	c.gets("newer")
}

// The answer is complete when the file has lost its name.
func TestRotated(t *testing.T) {
	for name, rotate := range map[string]func(path string) error{
		"removed":  os.Remove,
		"renamed":  func(path string) error { return os.Rename(path, path+".1") },
		"replaced": func(path string) error { return os.Rename(path+".new", path) },
	} {
		t.Run(name, func(t *testing.T) {
			s, path := start(t)
			appendTo(t, path+".new", "new\n")
			c := follow(t, s)
			appendTo(t, path, "last\n")
			must.Do(t, rotate(path))
			c.gets("last")
			c.ends()
		})
	}
}

// A client that has left costs neither a descriptor nor a request that goes on.
func TestClientLeaves(t *testing.T) {
	s, path := start(t)
	c := follow(t, s)
	if n := instances(t); n != 1 {
		t.Errorf("%d inotify descriptors, want 1", n)
	}
	c.leave()
	wait.Until(t, "the inotify descriptor is closed", func() bool { return instances(t) == 0 })
	c = follow(t, s)
	appendTo(t, path, "line\n")
	c.gets("line")
}

// instances counts the inotify descriptors of the programs that the test has started and that still
// run.
func instances(t *testing.T) (n int) {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || children == nil {
		t.Skip("the kernel does not list children")
	}
	for _, file := range children {
		text, _ := os.ReadFile(file)
		for _, pid := range strings.Fields(string(text)) {
			fds, _ := filepath.Glob("/proc/" + pid + "/fd/*")
			for _, fd := range fds {
				if to, _ := os.Readlink(fd); strings.Contains(to, "inotify") {
					n++
				}
			}
		}
	}
	return n
}

// A stop ends the answers in order, and does not wait for the grace period, after which they would
// be cut.
func TestStop(t *testing.T) {
	s, path := start(t)
	c := follow(t, s)
	appendTo(t, path, "line\n")
	c.gets("line")
	if code := s.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	c.ends()
}

// A stop also ends the answer to a client that is far behind the end of the file.
func TestStopFarBehind(t *testing.T) {
	s, path := start(t)
	c := follow(t, s)
	must.Do(t, os.Truncate(path, 1<<40)) // it has a hole, and takes no room
	must.Get(c.lines.ReadByte())(t)
	rest := make(chan error)
	go func() {
		_, err := io.Copy(io.Discard, c.lines)
		rest <- err
	}()
	if code := s.End(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if err := <-rest; err != nil {
		t.Errorf("the answer is cut: %v", err)
	}
}

func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	must.Do(t, syscall.Mkfifo(fifo, 0o600))
	for _, path := range []string{filepath.Join(dir, "none"), dir, fifo} {
		if resp := request(t, t.Context(), "GET",
			program.Start(t, "-file", path)); resp.StatusCode != 404 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

func TestHead(t *testing.T) {
	s, _ := start(t)
	if resp := request(t, t.Context(), "HEAD", s); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
}

func TestUsage(t *testing.T) {
	var exit *exec.ExitError
	out, err := program.Command(t).CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != 2 ||
		!strings.Contains(string(out), "-file is missing") {
		t.Errorf("%v: %s", err, out)
	}
}

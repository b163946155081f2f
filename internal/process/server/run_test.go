package server_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

func fetch(t *testing.T, address string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp := must.Get(client.Get("http://" + address + "/"))(t)
	return must.Body(t, resp)
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries := must.Get(os.ReadDir("/proc/self/fd"))(t)
	return len(entries)
}

// settleTo waits until no more than limit descriptors are open. Both ends of a connection close
// theirs in their own time.
func settleTo(t *testing.T, limit int, when string) {
	t.Helper()
	end := time.Now().Add(wait.Patience)
	for now := descriptors(t); now > limit; now = descriptors(t) {
		if time.Now().After(end) {
			t.Errorf("%s: %d descriptors, want %d", when, now, limit)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// startPoller has Go's own poller open its descriptors, so that they are not taken for ours.
func startPoller(t *testing.T) {
	ln := must.Listen(t)
	ln.Close()
}

// Reloads that succeed and reloads that fail, with listeners that come, go, and stay, leave nothing
// behind: neither does the stop.
func TestReloadLeavesNothing(t *testing.T) {
	leak.Goroutines(t)
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)

	dir := t.TempDir()
	text := func(body string, more ...string) string {
		return strings.Join(more, "\n") + "\n[[listener]]\naddress = \"127.0.0.1:0\"\n" +
			"[access_log]\npath = \"log\"\n" +
			route("prefix = \"/\"\nmodule = \"response\"\nbody = \""+body+"\"\n")
	}
	startPoller(t)
	before := descriptors(t)
	var log bytes.Buffer
	s := source()
	s.File = filepath.Join(dir, "lwango.conf")
	s.Logger = logtext.Logger(t, &log)
	srv := serve(t, s, text("0", "threads = 2"))
	address := srv.Addresses()[0]
	if got := fetch(t, address); got != "0" {
		t.Fatalf("got %q", got)
	}

	started := 0
	for i := range 20 {
		want := fmt.Sprint(i)
		if i%2 == 0 {
			srv.reload(text(want, "threads = 2"))
		} else {
			srv.reload(text(want, "threads = 2", "[[listener]]", "address = \"unix:s\""))
		}
		if got := fetch(t, address); got != want {
			t.Fatalf("after reload %d: got %q", i, got)
		}
		// Sockets and a log are opened before this one fails.
		srv.write(text("not this", "[[listener]]", "address = \"unix:none/s\""))
		if err := srv.Reload(); err == nil {
			t.Fatal("an impossible address was accepted")
		}
		if got := fetch(t, address); got != want {
			t.Fatalf("after refused reload %d: got %q", i, got)
		}
		if i == 1 {
			started = descriptors(t)
		}
	}
	settleTo(t, started, "after 20 reloads")

	srv.end()
	settleTo(t, before, "after the stop")
	if _, err := os.Stat(filepath.Join(dir, "s")); err == nil {
		t.Error("the UNIX socket's file is still there")
	}
	if t.Failed() {
		t.Log(log.String())
	}
}

// A configuration from a pipe is gone once it is read: a reload does not take that for one without
// keys, which would serve the defaults.
func TestReloadFromPipe(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	r, w := must.Pipe(t)
	must.Get(io.WriteString(w, "threads = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		route("prefix = \"/\"\nmodule = \"response\"\nbody = \"a\"\n")))(t)
	w.Close()
	s := source()
	s.File = fmt.Sprintf("/proc/self/fd/%d", r.Fd())
	srv := serve(t, s, "")
	if err := srv.Reload(); err == nil || !strings.Contains(err.Error(), "an empty pipe") {
		t.Errorf("a second read: %v", err)
	}
	if got := fetch(t, srv.at); got != "a" {
		t.Errorf("afterwards: %q", got)
	}
}

// A module that panics when it is built does not end a server that reads its configuration again:
// it goes on as it was, and says so.
func TestReloadSurvivesPanic(t *testing.T) {
	text := func(body string) string {
		return "threads = 1\n" + route("prefix = \"/\"\nmodule = \"moody\"\nbody = \""+body+"\"\n")
	}
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	var log logtext.Buffer
	s := source()
	s.Logger = logtext.Logger(t, &log)
	type mood struct {
		Body string `toml:"body"`
	}
	handlers.RegisterModule(s.Modules, "moody", mood{},
		func(m mood, _ handlers.Env) (conn.Handler, error) {
			if m.Body == "bad" {
				panic("in a bad mood")
			}
			return func(_ *conn.Request, resp *conn.Response) int {
				resp.SetBody([]byte(m.Body))
				return 200
			}, nil
		})
	srv := serve(t, s, text("good"))
	srv.write(text("bad"))
	srv.ReloadAndLog()
	if got := fetch(t, srv.at); got != "good" {
		t.Errorf("got %q", got)
	}
	for _, want := range []string{"reload refused, everything stays as it was", "in a bad mood",
		"run_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log.String())
		}
	}
	srv.write(text("better"))
	srv.ReloadAndLog()
	if got := fetch(t, srv.at); got != "better" {
		t.Errorf("got %q", got)
	}
}

// The file of a UNIX socket gets the mode and the owner of its listener, at the start and at a
// reload, and a mode that cannot be had is an error. The owner is this process's own user and
// group, which every process may set.
func TestUnixSocketAccess(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(threads)
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	listen := func(mode, owner string) string {
		return "threads = 1\n[[listener]]\naddress = \"unix:s\"\nmode = \"" + mode + "\"\nowner = \"" +
			owner + "\"\n"
	}
	check := func(want os.FileMode, uid, gid int) {
		t.Helper()
		info := must.Get(os.Stat(path))(t)
		st := info.Sys().(*syscall.Stat_t)
		if info.Mode().Perm() != want || int(st.Uid) != uid || int(st.Gid) != gid {
			t.Errorf("%v %d:%d, want %v %d:%d", info.Mode(), st.Uid, st.Gid, want, uid, gid)
		}
	}
	uid, gid := os.Getuid(), os.Getgid()
	s := source()
	s.File = filepath.Join(dir, "t.conf")
	srv := serve(t, s, listen("0600", fmt.Sprintf("%d:%d", uid, gid)))
	check(0o600, uid, gid)
	srv.reload(listen("666", fmt.Sprintf(":%d", gid)))
	check(0o666, uid, gid)
	srv.write(listen("0600", fmt.Sprint(uid)) + "[[listener]]\naddress = \"unix:nowhere/s\"\n")
	if err := srv.Reload(); err == nil {
		t.Error("a socket in a folder that does not exist")
	}
	check(0o666, uid, gid) // a reload that is refused changes nothing
	other := uid + 1
	srv.write(listen("0660", fmt.Sprint(other)))
	err := srv.Reload()
	if uid == 0 {
		check(0o660, other, gid)
	} else if !errors.Is(err, os.ErrPermission) {
		t.Errorf("a socket was given to another user: %v", err)
	}
}

// A start that fails half way closes what it has opened.
func TestFailedStartLeavesNothing(t *testing.T) {
	leak.Goroutines(t)
	startPoller(t)
	before := descriptors(t)
	dir := t.TempDir()
	s := source()
	s.Listen = []string{"127.0.0.1:0", "unix:" + dir + "/s", "unix:" + dir + "/none/s"}
	config := must.Get(s.Parse(filepath.Join(dir, "t.conf"), "[access_log]\npath = \"log\""))(t)
	if srv, err := server.Start(s, config); err == nil {
		t.Errorf("started: %v", srv.Addresses())
	}
	settleTo(t, before, "after the failed start")
	if _, err := os.Stat(dir + "/s"); err == nil {
		t.Error("the UNIX socket's file is still there")
	}
}

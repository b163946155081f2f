package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestDebug: the socket is its owner's alone; the dump of threads tells what waits, and how; traces
// have requests as tasks; a reload and the stop close the socket.
func TestDebug(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	dir := t.TempDir()
	path := filepath.Join(dir, "debug.sock")
	const with, without = "threads = 1\n[debug]\naddress = \"unix:debug.sock\"\n", "threads = 1\n"
	release := make(chan struct{})
	source := config.Source{File: filepath.Join(dir, "lwango.conf"), Modules: config.Builtin(),
		Listen: []string{"127.0.0.1:0"},
		Logger: logtext.Quiet, Routes: []handlers.Route{
			{Prefix: "/wait", Handler: func(req *conn.Request, _ *conn.Response) int {
				_ = req.Await(-1, func(context.Context) error { <-release; return nil })
				return 200
			}},
			{Prefix: "/", Handler: func(*conn.Request, *conn.Response) int { return 200 }}}}
	s := serve(t, source, with)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	client := http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	ask := func(what string) (int, string) {
		resp, err := client.Get("http://debug" + what)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text)
	}

	c := must.Dial(t, "tcp", s.at)
	fmt.Fprint(c, "GET /wait/for?me HTTP/1.1\r\nHost: a\r\n\r\n")
	dump := ""
	for end := time.Now().Add(wait.Patience); !strings.Contains(dump, "/wait/for?me"); {
		if _, dump = ask("/debug/threads"); time.Now().After(end) {
			t.Fatalf("the thread does not show:\n%s", dump)
		}
	}
	for _, want := range []string{"waiting  Suspend, for ", "client " + c.LocalAddr().String(),
		`route "/wait"`} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %q in\n%s", want, dump)
		}
	}
	close(release)
	_, _ = c.Read(make([]byte, 200))
	wait.Until(t, "the connection is idle", func() bool { // it may still send
		_, dump = ask("/debug/threads?idle=1")
		return strings.Contains(dump, "idle     WantRead of its descriptor")
	})

	traced := make(chan string)
	go func() { _, text := ask("/debug/pprof/trace?seconds=0.3"); traced <- text }()
	var trace string
	for trace == "" {
		select {
		case trace = <-traced:
		default:
			_, _ = get(t, "http://"+s.at+"/")
		}
	}
	if !strings.HasPrefix(trace, "go 1.") || !bytes.Contains([]byte(trace), []byte("request")) {
		t.Errorf("a trace of %d bytes without requests: %.20q", len(trace), trace)
	}
	for what, want := range map[string]int{"/": 200, "/debug/pprof/heap": 200,
		"/debug/pprof/goroutine?debug=2":   200,
		"/debug/pprof/profile?seconds=0.1": 200, "/debug/pprof/none": 404,
		"/debug/pprof/trace?seconds=-1":    400,
		"/debug/pprof/profile?seconds=1e9": 400} {
		if got, text := ask(what); got != want || text == "" {
			t.Errorf("%s: %d %.50q, want %d", what, got, text, want)
		}
	}

	s.reload(without)
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket stays when the configuration has none")
	}
	s.reload(with)
	if got, _ := ask("/"); got != 200 {
		t.Errorf("again: %d", got)
	}
	must.Write(t, filepath.Join(dir, "a file"), "")
	s.write("threads = 1\n[debug]\naddress = \"unix:a file\"\n")
	if err := s.Reload(); err == nil ||
		!strings.Contains(err.Error(),
			"a file: bind: address already in use: there is a file that is no socket") {
		t.Error(err)
	}
	s.end()
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket stays after the stop")
	}
}

func TestDebugAddress(t *testing.T) {
	source := config.Source{Modules: config.Builtin(), Logger: logtext.Quiet}
	const remote = "t.conf:2: debug.address: other machines could read what clients send: expected " +
		"unix:path " +
		"or an address such as 127.0.0.1:6060, or allow_remote = true"
	listener := func(at string) string { return "[[listener]]\naddress = \"" + at + "\"" }
	same := func(at string) string {
		return "t.conf:2: debug.address: clients connect to that one: there is a listener at " + at
	}
	for text, want := range map[string]string{
		`address = "127.0.0.1:6060"`:                              "",
		`address = "[::1]:6060"`:                                  "",
		`address = "localhost:6060"`:                              "",
		`address = "unix:debug"`:                                  "",
		`address = "*:6060"`:                                      remote,
		`address = "10.0.0.1:6060"`:                               remote,
		"address = \"*:6060\"\nallow_remote = true":               "",
		`address = "systemd:x"`:                                   `t.conf:2: debug.address: expected unix:path or host:port, found "systemd:x"`,
		`address = ""`:                                            `t.conf:2: debug.address: expected something like "unix:/run/lwango/debug.sock"`,
		`address = "x"`:                                           `t.conf:2: debug.address: expected host:port, unix:path or systemd:name, found "x"`,
		"address = \"127.0.0.1:80\"\n" + listener("127.0.0.1:80"): same("127.0.0.1:80"),
		"address = \"127.0.0.1:80\"\n" + listener("[::ffff:127.0.0.1]:80"): same("[::ffff:127.0.0.1]:80"),
		"address = \"127.0.0.1:80\"\n" + listener("*:80"):                  same("*:80"),
		"address = \"[::1]:80\"\n" + listener("0.0.0.0:80"):                same("0.0.0.0:80"),
		"address = \"127.0.0.1:80\"\n" + listener("127.0.0.2:80"):          "",
		"address = \"127.0.0.1:81\"\n" + listener("*:80"):                  "",
		"address = \"127.0.0.1:0\"\n" + listener("127.0.0.1:0"):            "",
		"address = \"unix:/a/../s\"\n" + listener("unix:/s"):               same("unix:/s"),
		"address = \"unix:/s\"\n" + listener("unix:/t"):                    "",
		"address = \"unix:/s\"\n" + listener("systemd:s"):                  "",
	} {
		got := ""
		if _, err := source.Parse("t.conf", "[debug]\n"+text); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestDebugApart: profiles are not shown at an address that another listener has, be it of this
// server or of another one.
func TestDebugApart(t *testing.T) {
	fd := must.Get(loop.Listen("tcp", "127.0.0.1:0", true))(t)
	defer unix.Close(fd)
	at := loop.LocalAddr(fd).String()
	text := fmt.Sprintf("[debug]\naddress = %q", at)

	s := source()
	s.Listen = []string{at}
	if _, err := s.Parse("t.conf", text); err == nil ||
		!strings.Contains(err.Error(), "there is a listener at "+at) {
		t.Errorf("a listener of the command line: %v", err)
	}

	s.Listen = []string{"127.0.0.1:0"}
	config := must.Get(s.Parse("t.conf", text))(t)
	if _, err := server.Start(s, config); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another server: %v, want EADDRINUSE", err)
	}
}

// TestDebugByAddress: a page in a browser cannot read a port of this machine by a name of its own,
// nor one that other machines may connect to.
func TestDebugByAddress(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	for _, more := range []string{"", "allow_remote = true\n"} {
		at := heldPort(t)
		serve(t, source(), "[debug]\naddress = \""+at+"\"\n"+more)
		for host, want := range map[string]int{at: 200, "localhost:1": 200, "[::1]:1": 200,
			"evil.example": 403} {
			req, _ := http.NewRequest("GET", "http://"+at+"/", nil)
			req.Host = host
			resp := must.Get((&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req))(t)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s%s: %d, want %d", more, host, resp.StatusCode, want)
			}
		}
	}
}

// TestDebugChanges: upstreams are set at a port of this machine by those who connect to it
// themselves, and not where other machines may.
func TestDebugChanges(t *testing.T) {
	at := heldPort(t)
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	text := route("prefix = \"/\"\nmodule = \"proxy\"\naddress = [\"127.0.0.1:1\"]\n") +
		"[debug]\naddress = \"" + at + "\"\n"
	s := serve(t, source(), text)
	try := func(host string, want int) {
		t.Helper()
		body := strings.NewReader("name=127.0.0.1:1&state=drain")
		req, _ := http.NewRequest("POST", "http://"+at+"/debug/upstreams", body)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Host = host
		resp := must.Get((&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req))(t)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", host, resp.StatusCode, want)
		}
	}
	try(at, 200)
	try("evil.example", 403)
	s.reload(text + "allow_remote = true\n")
	try(at, 403)
	try("evil.example", 403)
	s.reload(text)
	try(at, 200)
}

// TestDebugSocketFile: the file of the socket is for the server's user, leaves nothing beside it,
// and is not taken away from a server that runs.
func TestDebugSocketFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "socket")
	src, text := source(), "threads = 1\n[debug]\naddress = \"unix:"+path+"\""
	src.Listen = []string{"127.0.0.1:0"}
	s := serve(t, src, text)
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if entries, err := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	config := must.Get(src.Parse("", text))(t)
	if _, err := server.Start(src, config); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("another server: %v, want EADDRINUSE", err)
	}
	c := must.Dial(t, "unix", path)
	c.Close()
	s.end()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { program.Main(m, main) }

const patience = wait.Patience

// client does not keep connections.
var client = &http.Client{
	Timeout:   patience,
	Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: patience},
}

// server is the sample with a folder for its temporary ones.
type server struct {
	*program.Server
	url    string
	tmp    string
	master int // PHP-FPM
}

func run(t *testing.T) *server {
	t.Helper()
	needFPM(t)
	s := &server{tmp: temporary(t)}
	t.Cleanup(func() {
		if left := s.left(t); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	s.Server = program.Start(t)
	s.url = "http://" + s.Address
	s.master = atoi(t, s.Logged(t, `fpm is running, pid (\d+)`)[1])
	return s
}

func needFPM(t *testing.T) {
	t.Helper()
	if _, err := find("php-fpm"); err != nil {
		ci.Lacks(t, err.Error())
	}
}

// temporary makes a folder that TMPDIR names. Every user can enter it, as /tmp, and its name is
// short, since names of sockets are.
func temporary(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "php"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must.Do(t, os.Chmod(dir, 0o755))
	t.Setenv("TMPDIR", dir)
	return dir
}

func (s *server) left(t *testing.T) []string { return left(t, s.tmp) }

// left lists what is in a folder of temporary files, except those of the test.
func left(t *testing.T, tmp string) (names []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(tmp))(t)
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "Test") {
			names = append(names, e.Name())
		}
	}
	return names
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	n := must.Get(strconv.Atoi(s))(t)
	return n
}

// worker is the process that has answered a request.
func (s *server) worker(t *testing.T) int {
	t.Helper()
	_, rest, _ := strings.Cut(get(t, s.url+"/").body, "made by process ")
	pid, _, _ := strings.Cut(rest, " ")
	return atoi(t, pid)
}

// runs reports whether a process runs. A zombie does not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // proc_pid_stat(5): the state is behind the name
	return rest[0] != 'Z' && rest[0] != 'X'
}

type answer struct {
	status int
	header http.Header
	body   string
}

func get(t *testing.T, url string) answer {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", url, nil))(t)
	return do(t, req)
}

func do(t *testing.T, req *http.Request) answer {
	t.Helper()
	resp := must.Get(client.Do(req))(t)
	return answer{resp.StatusCode, resp.Header, must.Body(t, resp)}
}

// A signal ends both, and the folder is gone.
func TestStop(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		s := run(t)
		worker := s.worker(t)
		if code := s.End(t, sig); code != 0 {
			t.Errorf("%v: exit code %d", sig, code)
		}
		if runs(s.master) || runs(worker) {
			t.Errorf("%v: php-fpm has survived", sig)
		}
		if left := s.left(t); len(left) > 0 {
			t.Errorf("%v: left behind: %v", sig, left)
		}
	}
}

// PHP is there until the requests in flight are answered.
func TestStopWithRequest(t *testing.T) {
	s := run(t)
	body, kind, digest := upload(t, 1<<20, "x")
	r, w := io.Pipe()
	req := s.uploading(t, "application/json", kind, r)
	answered := make(chan received, 1)
	go func() {
		var got received
		resp, err := client.Do(req)
		if err == nil {
			err = json.NewDecoder(resp.Body).Decode(&got)
			resp.Body.Close()
		}
		if err != nil {
			got.Error = err.Error()
			r.CloseWithError(err)
		}
		answered <- got
	}()
	// This ends when the server has asked for the body, so the server has the request.
	must.Get(w.Write(body[:1000]))(t)
	must.Do(t, s.Signal(syscall.SIGTERM))
	s.Logged(t, "msg=stopping .*connections=1")
	if _, err := w.Write(body[1000:]); err != nil {
		t.Error(err)
	}
	w.Close()
	if got := <-answered; got.SHA256 != digest {
		t.Errorf("got %+v, want %s", got, digest)
	}
	if code := s.End(t, 0); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A second signal does not wait for a clock, and leaves nothing behind either.
func TestStopAtOnce(t *testing.T) {
	s := run(t)
	c := s.clock(t, "")
	worker := c.next(t).Process
	must.Do(t, s.Signal(syscall.SIGTERM))
	s.Logged(t, "msg=stopping ")
	if code := s.End(t, syscall.SIGINT); code != 1 {
		t.Errorf("exit code %d", code)
	}
	if runs(s.master) || runs(worker) {
		t.Error("php-fpm has survived")
	}
}

// As root, a folder that only root can enter is refused: all scripts would be 404.
func TestClosedFolder(t *testing.T) {
	needFPM(t)
	if os.Geteuid() != 0 {
		t.Skip("not root: scripts run as ourselves")
	}
	dir := temporary(t)
	must.Do(t, os.Chmod(dir, 0o700))
	out, err := program.Command(t, "-l", "127.0.0.1:0").CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte(dir+" is closed to the user nobody")) {
		t.Errorf("%v: %s", err, out)
	}
	if left := left(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The sample brings its configuration. It does not read an lwango.conf in the folder where it is
// started, such as the repository's.
func TestConfiguration(t *testing.T) {
	needFPM(t)
	tmp := temporary(t)
	cmd := program.Command(t, "-t")
	program.Configure(t, cmd.Dir, "not = 'ours'")
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), tmp) ||
		!strings.HasSuffix(string(out), "/lwango.conf: ok\n") {
		t.Errorf("%v: %q", err, out)
	}

	// If the configuration is refused, PHP-FPM, which runs already, ends too.
	program.Fails(t, []string{"-l", "nonsense"}, 2, "exiting, bye-bye!")
	if left := left(t, tmp); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

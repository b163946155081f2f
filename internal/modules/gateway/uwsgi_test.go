package gateway_test

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// startUWSGI starts a uWSGI with an application of testdata, and returns where it listens for each
// protocol, HTTP among them, by UNIX socket and by TCP.
func startUWSGI(t *testing.T, app string, more ...string) (addresses map[string][]string) {
	t.Helper()
	plugins, _ := filepath.Glob("/usr/lib/uwsgi/plugins/python3_plugin.so")
	path, err := exec.LookPath("uwsgi-core")
	if err != nil || len(plugins) == 0 {
		ci.Lacks(t, "uWSGI with Python: apt-get install uwsgi-core uwsgi-plugin-python3")
	}
	dir := must.Get(os.MkdirTemp("", "uwsgi"))(t) // a socket's path has to be short, t.TempDir is not
	t.Cleanup(func() { os.RemoveAll(dir) })
	args := []string{"--plugin", "python3", "--wsgi-file", "testdata/" + app, "--need-app", "--master",
		"--processes", "2", "--die-on-term", "--buffer-size", "32768"}
	addresses = map[string][]string{}
	for option, name := range map[string]string{"--socket": "uwsgi", "--scgi-socket": "scgi",
		"--http-socket": "http"} {
		ln := must.Get(net.Listen("tcp", loopback.Host()+":0"))(t)
		tcp, unix := ln.Addr().String(), filepath.Join(dir, name)
		ln.Close()
		addresses[name] = []string{"unix:" + unix, tcp}
		args = append(args, option, unix, option, tcp)
	}
	out := new(logtext.Buffer)
	cmd := exec.Command(path, append(args, more...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("uWSGI:\n%s", out)
		}
	})
	wait.Until(t, "uWSGI has its workers", func() bool {
		return strings.Contains(out.String(), "spawned uWSGI worker 2")
	})
	return addresses
}

// TestUWSGI asks an application of Python at a real uWSGI.
func TestUWSGI(t *testing.T) {
	ci.Only(t, "it needs uWSGI with Python")
	addresses := startUWSGI(t, "app.py")
	large := string(modes.Noise(8 << 20))
	sum := func(s string) string { return fmt.Sprintf("%d %x", len(s), sha256.Sum256([]byte(s))) }
	chunks := "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n"
	for _, p := range protocols {
		if p.name == "scgi" && invariants.Enabled {
			// Writes are cut short then, and uWSGI closes the connection when what it has read ends right
			// before the comma of the netstring.
			continue
		}
		for i, address := range addresses[p.name] {
			t.Run(fmt.Sprint(p.name, " ", []string{"unix", "tcp"}[i]), func(t *testing.T) {
				for _, buffering := range []bool{true, false} {
					s := serve(t, p, "/app", []string{address}, func(s *upstreams.Gateway) {
						s.RequestBuffering = buffering
					})
					s.ask("GET /app/env?a=%20b", []string{"Proxy: x"}, "").check(t, "GET", 200,
						"Content-Type: text/plain", "GET|/app|/env|a=%20b|http|-")
					s.ask("HEAD /app/env", nil, "").check(t, "HEAD", 200, "Content-Type: text/plain", "")
					s.ask("POST /app/sum", nil, "hello").check(t, "POST", 200, "", sum("hello"))
					s.ask("POST /app/sum", nil, large).check(t, "large POST", 200, "", sum(large))
					s.ask("POST /app/sum", []string{"Transfer-Encoding: chunked"}, chunks).check(t, "chunks", 200,
						"", sum("abcdefg"))
					s.ask("GET /app/stream", nil, "").check(t, "stream", 200, "Content-Type: text/event-stream",
						"data: 0\n\ndata: 1\n\ndata: 2\n\n")
					s.ask("GET /app/large", nil, "").check(t, "large answer", 200, "", strings.Repeat("x", 16<<20))
					g := s.ask("GET /app/teapot", nil, "")
					g.check(t, "418", 418, "X-A: b", "")
					if fmt.Sprint(g.header["Set-Cookie"]) != "[a=1 b=2]" {
						t.Errorf("cookies %q", g.header["Set-Cookie"])
					}
					s.ask("GET /app/x", nil, "").check(t, "404", 404, "", "nothing at /x")
					s.ask("POST /app/unread", nil, strings.Repeat("x", 1<<20)).check(t, "unread", 403, "", "no")
					s.ask("GET /app/env", []string{"X-A: " + strings.Repeat("a", 9000)}, "").check(t,
						"a long field", 200, "", "GET|/app|/env||http|-")
					if g := s.ask("GET /app/raise", nil, ""); g.status != 500 && g.status != 502 {
						t.Errorf("an exception: %+v", g)
					}
					for _, path := range []string{"/app/short", "/app/die"} {
						if g := s.ask("GET "+path, nil, ""); g.err == nil && g.status != 502 {
							t.Errorf("%s: %+v", path, g)
						}
					}
				}
			})
		}
	}
}

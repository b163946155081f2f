package machine_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/lwango/lwango/internal/process/confine"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// applications listens on sockets in the jail: an upstream for HTTP and WebSockets, and one for
// FastCGI.
func (j *jail) applications() {
	j.t.Helper()
	listen := func(name string) net.Listener {
		l := must.Get(net.Listen("unix", j.in(name)))(j.t)
		must.Do(j.t, os.Chmod(j.in(name), 0o777))
		j.t.Cleanup(func() { l.Close() })
		return l
	}
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !websocket.IsWebSocketUpgrade(r) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "upstream %d", len(body))
			return
		}
		c, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer c.Close()
		for {
			kind, text, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, text) != nil {
				return
			}
		}
	})
	upstream := &http.Server{Handler: echo}
	go upstream.Serve(listen("run/upstream"))
	j.t.Cleanup(func() { upstream.Close() })
	go fcgi.Serve(listen("run/fcgi"), http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "script ", r.URL.Path) }))
}

// TestConfined: all that a server does goes on while it is confined.
func TestConfined(t *testing.T) {
	ci.Root(t) // which becomes another user
	for name, extra := range map[string]string{
		"landlock": "", "seccomp": "seccomp = true\n", "none": "landlock = false\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testConfined(t, extra)
		})
	}
}

func testConfined(t *testing.T, extra string) {
	j := newJail(t)
	j.applications()
	ca := certs.New(t)
	issue := func(days int) {
		cert, key := ca.Files(ca.Issue(time.Duration(days)*24*time.Hour, "localhost"))
		for from, to := range map[string]string{cert: "keys/cert.pem", key: "keys/key.pem"} {
			text := must.Read(t, from)
			j.write(to+".new", text)
			must.Do(t, os.Rename(j.in(to+".new"), j.in(to)))
		}
	}
	issue(100)
	j.write("www/file.txt", "a file")
	j.write("www/x.php", "a script")
	j.write("secrets/one", "a word\n")
	outside := filepath.Join(t.TempDir(), "outside") // of the jail
	must.Do(t, os.WriteFile(outside, []byte("secret"), 0o644))
	must.Do(t, os.Chmod(filepath.Dir(filepath.Dir(outside)), 0o755))
	must.Do(t, os.Symlink(outside, j.in("www/out")))
	text := `
spool_dir = "../tmp"
[confine]
user = "65534"
group = "65534"
` + extra + `
[[listener]]
address = "127.0.0.1:0"
[[listener]]
address = "unix:../run/lwango"
mode = "0660"
[[listener]]
address = "127.0.0.2:0"
tls = { cert = "../keys/cert.pem", key = "../keys/key.pem" }
[access_log]
path = "../log/access.log"
[debug]
address = "unix:../debug/socket"
[headers]
x-secret = "${file:../secrets/one}"
[[site]]
[[site.route]]
prefix = "/"
module = "serve_files"
path = "../www"
follow_symlinks = true
[[site.route]]
prefix = "/up/"
module = "proxy"
address = "unix:../run/upstream"
[[site.route]]
prefix = "/php/"
module = "fastcgi"
address = "unix:../run/fcgi"
script_path = "../www"
`
	j.write("etc/lwango.conf", text)
	addresses := j.start(3)
	var plain, secure string
	for _, a := range addresses {
		switch {
		case strings.HasPrefix(a, "unix:"):
		case plain == "":
			plain = a
		default:
			secure = a
		}
	}
	seccomp := "0"
	if strings.Contains(extra, "seccomp") {
		seccomp = "2"
	}
	j.threads(seccomp)

	var leaf string
	over := map[string]*http.Client{}
	over["http"] = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	over["https"] = &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
			VerifyConnection: func(s tls.ConnectionState) error {
				leaf = s.PeerCertificates[0].SerialNumber.String()
				return nil
			}}}}
	by := func(socket string) *http.Client {
		return &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", j.in(socket))
			}}}
	}
	over["unix"] = by("run/lwango")
	ask := func(client, path string, body io.Reader) (int, string) {
		t.Helper()
		base := map[string]string{"http": "http://" + plain, "https": "https://" + secure,
			"unix": "http://unix"}[client]
		method := http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
		req := must.Get(http.NewRequest(method, base+path, body))(t)
		resp := must.Get(over[client].Do(req))(t)
		return resp.StatusCode, must.Body(t, resp)
	}
	check := func(client, path string, body io.Reader, want string) {
		t.Helper()
		if code, got := ask(client, path, body); code != 200 || got != want {
			t.Errorf("%s %s: %d %q, want %q", client, path, code, got, want)
		}
	}
	serves := func() {
		t.Helper()
		for client := range over {
			check(client, "/file.txt", nil, "a file")
			check(client, "/up/x", nil, "upstream 0")
			check(client, "/php/x.php", nil, "script /php/x.php")
		}
		// This body goes through a temporary file.
		check("http", "/up/x", io.LimitReader(zeros{}, 4<<20), fmt.Sprint("upstream ", 4<<20))
		c, _, err := websocket.DefaultDialer.Dial("ws://"+plain+"/up/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		must.Do(t, c.WriteMessage(websocket.TextMessage, []byte("hello")))
		if _, got, err := c.ReadMessage(); err != nil || string(got) != "hello" {
			t.Errorf("WebSocket: %q, %v", got, err)
		}
	}
	serves()
	if resp, err := by("debug/socket").Get("http://unix/debug/threads"); err != nil {
		t.Error(err)
	} else if resp.Body.Close(); resp.StatusCode != 200 {
		t.Errorf("debug: %s", resp.Status)
	}

	// Only the user keeps the server from a file outside without Landlock.
	code, got := ask("http", "/out", nil)
	if open := strings.Contains(extra, "landlock = false"); open != (code == 200) {
		t.Errorf("/out: %d %q", code, got)
	} else if !open && confine.Landlock() == 0 {
		t.Error("no Landlock in this kernel")
	}

	// A log rotation. What is not written yet when the file is moved would be in the next one.
	wait.Until(t, "the lines are written", func() bool { return j.lines("log/access.log") >= 10 })
	must.Do(t, os.Rename(j.in("log/access.log"), j.in("log/access.log.1")))
	j.signal(syscall.SIGUSR1)
	j.says("access log reopened", 1)
	check("http", "/file.txt", nil, "a file")

	// A reload with another certificate, and another file.
	check("https", "/file.txt", nil, "a file")
	before := leaf
	issue(200)
	j.write("www/new.txt", "new")
	j.write("etc/lwango.conf", text+"[[site.route]]\nprefix = \"/new\"\nmodule = \"serve_files\"\n"+
		"path = \"../www\"\n")
	j.signal(syscall.SIGHUP)
	j.says("msg=reloaded", 1)
	if check("https", "/new/new.txt", nil, "new"); leaf == before {
		t.Error("the certificate was not renewed")
	}
	serves()

	// One that needs what is out of reach.
	if confine.Landlock() > 0 && !strings.Contains(extra, "landlock = false") {
		j.write("etc/lwango.conf", strings.Replace(text, `path = "../www"`,
			fmt.Sprintf("path = %q", filepath.Dir(outside)), 1))
		j.signal(syscall.SIGHUP)
		j.says("reload refused, everything stays as it was.*(permission denied|no such file)", 1)
		j.says("the server is confined: ", 1)
		serves()
	}
	j.threads(seccomp)

	if !strings.Contains(extra, "landlock = false") {
		j.signal(syscall.SIGUSR2)
		j.says("upgrade failed, this process goes on.*confine.* keeps this process from executing", 1)
		serves()
	}

	j.signal(syscall.SIGTERM)
	if err := j.cmd.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
	if _, err := os.Lstat(j.in("run/lwango")); err == nil {
		t.Error("the file of the socket is still there")
	}
	for name, least := range map[string]int{"log/access.log": 2, "log/access.log.1": 10} {
		if n := j.lines(name); n < least {
			t.Errorf("%s has %d lines, want %d", name, n, least)
		}
	}
	if log := j.logs.String(); strings.Contains(log, "level=WARN msg=\"confine") {
		t.Error("warned of something")
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestConfineWarns: what will fail later is told at the start.
func TestConfineWarns(t *testing.T) {
	ci.Root(t) // which becomes another user
	j := newJail(t)
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(1000*time.Hour, "localhost")) // which only root can read
	for _, name := range []string{"log", "run"} {
		must.Do(t, os.Chown(j.in(name), 0, 0))
		must.Do(t, os.Chmod(j.in(name), 0o755))
	}
	must.Do(t, os.Chmod(j.in("tmp"), 0o777|os.ModeSticky))
	j.write("log/access.log", "")
	j.give("log/access.log")
	j.write("etc/lwango.conf", fmt.Sprintf(`
pid_file = "../tmp/pid"
[confine]
user = "65534"
group = "65534"
[[listener]]
address = "unix:../run/lwango"
[[listener]]
address = "unix:../tmp/of-the-user"
owner = "65534"
[[listener]]
address = "127.0.0.1:0"
tls = { cert = %q, key = %q }
[access_log]
path = "../log/access.log"
`, cert, key))
	addresses := j.start(3)
	j.says("a reload would be refused, .*permission denied", 1)
	j.says("the file of a socket cannot be removed at the end", 1)
	j.says("a log that was moved away cannot be made anew", 1)
	j.says(`pid_file cannot be removed at the end" folder=\S*/tmp error="operation not permitted"`, 1)
	if n := len(j.says("the file of a socket cannot be removed", 1)); n != 1 {
		t.Errorf("%d sockets cannot be removed, want one: that in tmp is the user's", n)
	}
	for _, a := range addresses {
		if strings.HasPrefix(a, "unix:") {
			continue
		}
		c := must.Get(tls.Dial("tcp", a, &tls.Config{InsecureSkipVerify: true}))(t)
		c.Close()
	}
}

// TestConfinedIsUpgraded: without Landlock and seccomp, a confined server can be upgraded, also
// where it has no right to make files in the folder of its pid_file. With them, -upgrade is refused
// at once.
func TestConfinedIsUpgraded(t *testing.T) {
	ci.Root(t) // which becomes another user
	j := newJail(t)
	config := func(landlock bool) {
		j.write("etc/lwango.conf", fmt.Sprintf("pid_file = \"pid\"\n[confine]\nuser = \"65534\"\n"+
			"group = \"65534\"\nlandlock = %t\n[[listener]]\naddress = \"127.0.0.1:0\"\n", landlock))
	}
	upgrade := func() (string, int) {
		cmd := exec.Command(built(t), "-upgrade", "-c", j.in("etc/lwango.conf"))
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	config(false)
	j.start(1)
	const want = `process \d+ has taken the place of process \d+`
	if out, code := upgrade(); code != 0 || !regexp.MustCompile("^"+want+"\n$").MatchString(out) {
		t.Errorf("code %d, %s", code, out)
	}
	t.Cleanup(func() {
		if pid, err := j.pid(); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it has the log, and cmd.Wait waits for that
		}
	})
	j.says("msg=stopped", 1)
	// A command that can make no file either does not wait for what cannot come.
	cmd := exec.Command(built(t), "-upgrade", "-c", j.in("etc/lwango.conf"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: another, Gid: another}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out),
		"pid.upgrade.new: permission denied; send it the signal SIGUSR2") {
		t.Errorf("%v, %s", err, out)
	}
	pid := must.Get(j.pid())(t)
	must.Do(t, syscall.Kill(pid, syscall.SIGTERM))
	if err := j.cmd.Wait(); err != nil {
		t.Error(err)
	}

	if confine.Landlock() == 0 {
		return
	}
	config(true)
	j.start(1)
	if out, code := upgrade(); code != 1 || !strings.Contains(out, "a confined server cannot start") {
		t.Errorf("code %d, %s", code, out)
	}
	config(false) // which is not what the server has been started with
	const refused = "failed: [confine] keeps this process from executing a program"
	if out, code := upgrade(); code != 1 || !strings.Contains(out, refused) {
		t.Errorf("code %d, %s", code, out)
	}
}

// TestConfineRefuses: nothing is served by a server that cannot be confined as it was told.
func TestConfineRefuses(t *testing.T) {
	ci.Root(t) // which becomes another user
	const plain, root = "", "root"
	for _, test := range []struct {
		as, text, want string
		start          bool // and not -t
	}{
		{root, "user = \"nobody-here\"", `lwango.conf:2: confine.user: there is no user "nobody-here"`,
			false},
		{root, "user = \"65534\"\ngroup = \"none-here\"",
			`lwango.conf:3: confine.group: there is no group "none-here"`, false},
		{root, "user = \"54321\"", `lwango.conf:1: confine.group: missing: user 54321 is not in`, false},
		{root, "user = \"root\"", `lwango.conf:2: confine.user: expected one that is not root`, false},
		{root, "landlock = true", `lwango.conf:1: confine.user: missing`, false},
		{root, "group = \"65534\"", `lwango.conf:2: confine.group: needs the key user`, false},
		{plain, "user = \"65533\"\ngroup = \"65533\"",
			`lwango.conf:2: confine.user: only root becomes another user; this is started by user 65534`,
			false},
		{root, "user = \"65534\"\ngroup = \"65534\"\n[access_log]\npath = \"/var/log/lwango-test.log\"",
			`lwango.conf:5: access_log.path: open /var/log/lwango-test.log: permission denied`, true},
		{root, "user = \"65534\"\ngroup = \"65534\"\n[access_log]\npath = \"/var/log/lwango-test.log\"",
			`lwango.conf:5: access_log.path: open /var/log/lwango-test.log: permission denied`, false},
	} {
		j := newJail(t)
		j.write("etc/lwango.conf", "[confine]\n"+test.text+
			"\n[[listener]]\naddress = \"127.0.0.1:0\"\n")
		args := []string{"-c", "lwango.conf"}
		code := 1
		if !test.start {
			args, code = append(args, "-t"), 2
		}
		cmd := exec.Command(built(t), args...)
		cmd.Dir = j.in("etc")
		if test.as == plain {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Credential: &syscall.Credential{Uid: another, Gid: another}}
		}
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), test.want) {
			t.Errorf("%s: exit code %d, want %d and %q:\n%s", test.text, got, code, test.want, out)
		}
	}
	if _, err := os.Stat("/var/log/lwango-test.log"); err == nil {
		t.Error("the log was made by root")
	}
}

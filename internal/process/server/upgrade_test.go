package server_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"golang.org/x/sys/unix"
)

// TestUpgrade: a new process takes the place of the old one, which answers what its connections
// ask for once more, keeps what is under way, and ends. The number of loops may change.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	u := startUpgraded(t, "threads = 3")
	kept := must.Get(u.dial("tcp"))(t)
	old := u.mustPID()
	if pid, last, err := kept.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || last ||
		err != nil {
		t.Fatal(pid, last, err)
	}
	socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()

	u.write("lwango.conf", strings.Replace(u.config, "threads = 3", "threads = 1", 1))
	out, code := u.command()
	next := u.mustPID()
	if want := fmt.Sprintf("process %d has taken the place of process %d\n", next, old); code != 0 ||
		out != want || next == old {
		t.Fatalf("code %d, %q, want %q", code, out, want)
	}
	u.servedOnlyBy(next)
	if pid, last, err := kept.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || !last ||
		err != nil {
		t.Errorf("kept connection: %d, last %v, %v", pid, last, err)
	}
	kept.close()
	must.Do(t, syscall.Kill(old, syscall.SIGUSR2))
	u.logged("upgrade refused: another process has taken the place of this one")
	for range 3 {
		must.Do(t, socket.WriteMessage(gorilla.TextMessage, []byte("here")))
		if _, text, err := socket.ReadMessage(); string(text) != "here" || err != nil {
			t.Fatal(string(text), err)
		}
	}
	select {
	case <-u.gone:
		t.Error("the old process has ended before its connections")
	default:
	}
	_ = socket.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, ""))
	if _, _, err := socket.ReadMessage(); !gorilla.IsCloseError(err, 1000) {
		t.Errorf("the WebSocket ends with %v", err)
	}
	select {
	case <-u.gone:
	case <-time.After(wait.Patience):
		t.Fatal("the old process does not end")
	}
	u.servedOnlyBy(next)

	// More loops than sockets, and again as many.
	for _, threads := range []string{"threads = 4", "threads = 3"} {
		u.write("lwango.conf", strings.Replace(u.config, "threads = 3", threads, 1))
		if out, code := u.command(); code != 0 {
			t.Fatal(out, code)
		}
		u.servedOnlyBy(u.mustPID())
	}

	// What the new configuration does not have, the old process closes.
	u.write("lwango.conf", strings.Split(u.config, "[[listener]]\naddress = \"unix")[0])
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	wait.Until(t, "the end of the UNIX socket", func() bool {
		_, err := os.Lstat(u.addresses["unix"])
		return errors.Is(err, os.ErrNotExist)
	})
	last := u.mustPID()
	if got := u.served("tcp"); got != last {
		t.Errorf("process %d answers, want %d", got, last)
	}
	must.Do(t, syscall.Kill(last, syscall.SIGTERM))
	wait.Until(t, "the end of the pid file", func() bool {
		_, err := u.pid()
		return errors.Is(err, os.ErrNotExist)
	})
	if out, code := u.command(); code != 1 || !strings.Contains(out, "no server runs") {
		t.Errorf("no server: %q, code %d", out, code)
	}
}

// TestUpgradeFails: whatever the new process does instead of getting ready, the old one goes on.
func TestUpgradeFails(t *testing.T) {
	t.Parallel()
	u := startUpgradedBy(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, shortWait+"=5s") },
		"threads = 2")
	old := u.mustPID()
	for _, test := range []struct{ what, want string }{
		{"crash", `failed: it refuses its configuration, or has crashed.*exit status 2`}, // as a panic
		{"leave", `failed: it has ended \(exit status 0\)`},
		{"noise", `failed: it has ended \(signal: killed\)`},
		{"hang", `failed: it was not ready within 5s`},
	} {
		u.write("behaviour", test.what)
		out, code := u.command()
		if code != 1 || !regexp.MustCompile(test.want).MatchString(out) {
			t.Errorf("%s: code %d, %q, want %q", test.what, code, out, test.want)
		}
		u.servedOnlyBy(old)
		if got := u.mustPID(); got != old {
			t.Errorf("%s: the pid file has %d, want %d", test.what, got, old)
		}
	}
	u.write("lwango.conf", u.config+"nonsense = 1\n")
	if out, code := u.command(); code != 1 ||
		!strings.Contains(out, "failed: it refuses its configuration") {
		t.Errorf("wrong configuration: code %d, %q", code, out)
	}
	u.servedOnlyBy(old)

	// A configuration that is right, and cannot be served.
	u.write("lwango.conf", u.config+"[[listener]]\naddress = \"192.0.2.1:0\"\n")
	if out, code := u.command(); code != 1 || !strings.Contains(out, "exit status 1") {
		t.Errorf("code %d, %q", code, out)
	}
	u.servedOnlyBy(old)
	u.write("lwango.conf", u.config)
	if out, code := u.command(); code != 0 {
		t.Errorf("at last: code %d, %q", code, out)
	}
	u.servedOnlyBy(u.mustPID())
}

// heldPort returns a loopback address with a port that is this test's, which does not listen at it.
// What sets SO_REUSEPORT can.
func heldPort(t *testing.T) string {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	for _, option := range []int{unix.SO_REUSEPORT, unix.SO_REUSEADDR} {
		must.Do(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1))
	}
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound := must.Get(unix.Getsockname(fd))(t)
	return fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
}

// TestUpgradeOfDebug: after an upgrade the new process answers at a port of [debug], and not now
// this one and now the old one. A profile goes on.
func TestUpgradeOfDebug(t *testing.T) {
	t.Parallel()
	at := heldPort(t)
	u := startUpgraded(t, fmt.Sprintf("[debug]\naddress = %q", at))
	socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() // it keeps the old one
	client := http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(what string) (string, error) {
		resp, err := client.Get("http://" + at + what)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	answersWith := func(old bool) {
		t.Helper()
		for range 20 {
			text, err := ask("/debug/threads")
			if err != nil || strings.Contains(text, "hijacked") != old {
				t.Fatalf("from the old process, which has a WebSocket: want %v, %v:\n%s", old, err, text)
			}
		}
	}
	traced := make(chan error, 1)
	c := must.Dial(t, "tcp", at)
	fmt.Fprint(c, "GET /debug/pprof/trace?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	trace := bufio.NewReader(c)
	if line, err := trace.ReadString('\n'); line != "HTTP/1.1 200 OK\r\n" || err != nil {
		t.Fatal(line, err)
	}
	go func() { _, err := io.Copy(io.Discard, trace); traced <- err }()

	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	answersWith(false)
	select {
	case err := <-traced:
		t.Errorf("the trace has ended: %v", err)
	default:
	}
}

// TestUpgradeOfStates: an address of a name that is disabled gets no request of the new process
// either, which finds out only then where the name leads.
func TestUpgradeOfStates(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer app.Close()
	to := app.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(to)
	at := heldPort(t)
	u := startUpgraded(t, fmt.Sprintf("[debug]\naddress = %q\n", at)+
		route("prefix = \"/app\"\nmodule = \"proxy\"\naddress = [\"localhost:"+port+"\"]\n"))
	client := http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func() int {
		t.Helper()
		resp := must.Get(client.Get("http://" + u.addresses["tcp"] + "/app"))(t)
		resp.Body.Close()
		return resp.StatusCode
	}
	if got := ask(); got != 200 {
		t.Fatal(got)
	}
	resp := must.Get(client.PostForm("http://"+at+"/debug/upstreams",
		url.Values{"name": {to}, "state": {"down"}}))(t)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatal(resp.StatusCode)
	}
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	if got := ask(); got == 200 {
		t.Error("the address is used again")
	}
}

// TestUpgradeToLaterRelease: messages that this release does not know do no harm.
func TestUpgradeToLaterRelease(t *testing.T) {
	u := startUpgraded(t, "")
	u.write("behaviour", "later")
	if out, code := u.command(); code != 0 {
		t.Errorf("code %d, %q", code, out)
	}
	u.servedOnlyBy(u.mustPID())
}

// TestUpgradeUnderManager: sockets of the service manager are handed on, and it is told which
// process is the main one. The new one says nothing until it is.
func TestUpgradeUnderManager(t *testing.T) {
	m := listenAsManager(t)
	t.Setenv("WATCHDOG_USEC", "1000000")
	ln := must.Listen(t)
	f := must.Get(ln.(*net.TCPListener).File())(t)
	defer f.Close()
	u := startUpgradedBy(t, func(cmd *exec.Cmd) {
		// The process must know its own number before it becomes the server.
		args := append([]string{"-c", "export LISTEN_PID=$$ WATCHDOG_PID=$$; exec \"$0\" \"$@\"",
			cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh"}, args...)
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=web")
		cmd.ExtraFiles = []*os.File{f}
	}, "[[listener]]\naddress = \"systemd:web\"")
	m.told(`READY=1\nSTATUS=serving at .*`)
	m.told("WATCHDOG=1")
	u.addresses["tcp"] = ln.Addr().String()
	ln.Close()
	f.Close()
	for range 2 {
		if out, code := u.command(); code != 0 {
			t.Fatal(out, code)
		}
		next := u.mustPID()
		m.told(fmt.Sprintf(`MAINPID=%d\nSTATUS=process .*`, next))
		m.told("WATCHDOG=1")
		u.servedOnlyBy(next)
	}
	must.Do(t, syscall.Kill(u.mustPID(), syscall.SIGTERM))
	m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=[0-9]+\nSTATUS=.*`)
}

// TestUpgradeWithoutPIDFile: where the new configuration has no pid_file, the old process removes
// it.
func TestUpgradeWithoutPIDFile(t *testing.T) {
	u := startUpgraded(t, "")
	u.write("lwango.conf", strings.Replace(u.config, "pid_file = \"pid\"\n", "", 1))
	must.Do(t, syscall.Kill(u.mustPID(), syscall.SIGUSR2))
	<-u.gone
	if _, err := u.pid(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	next := must.Get(strconv.Atoi(u.logged(`upgrade begins.* pid=(\d+)`)))(t)
	u.servedOnlyBy(next)
	must.Do(t, syscall.Kill(next, syscall.SIGTERM))
}

// TestUpgradeUnderLoad: reloads and upgrades while clients of all kinds are busy fail no request
// and cut no transfer.
func TestUpgradeUnderLoad(t *testing.T) {
	t.Parallel()
	reloads, upgrades := 20, 3
	if s := os.Getenv("LWANGO_UPGRADES"); s != "" { // for a longer run
		upgrades, _ = strconv.Atoi(s)
		reloads = 10 * upgrades
	}
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(1000*time.Hour, "127.0.0.2"))
	u := startUpgraded(t,
		fmt.Sprintf("threads = 2\n[[listener]]\naddress = \"127.0.0.2:0\"\ntls = { cert = %q, key = %q }",
			cert, key))
	u.addresses["tls"] = u.logged(`address=(127\.0\.0\.2:\S+)`)
	u.tls = &tls.Config{RootCAs: ca.Pool, ServerName: "127.0.0.2"}
	var done, ended, sockets atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	client := func(f func() error) {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	var kept [6]*upgradeClient
	for i := range kept { // kept connections, for as long as they are kept
		network := []string{"tcp", "unix", "tls"}[i%3]
		c := &kept[i]
		client(func() (err error) {
			if *c == nil {
				if *c, err = u.dial(network); err != nil {
					return fmt.Errorf("kept: %w", err)
				}
			}
			_ = (*c).SetDeadline(time.Now().Add(wait.Patience))
			_, last, err := (*c).ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody")
			if last || err != nil {
				(*c).close()
				*c = nil
				ended.Add(1)
			}
			time.Sleep(time.Millisecond)
			if err != nil {
				return fmt.Errorf("kept: %w", err)
			}
			return nil
		})
	}
	client(func() error { // new connections
		c, err := u.dial("tcp")
		if err == nil {
			_, _, err = c.ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			c.close()
		}
		if err != nil {
			return fmt.Errorf("new: %w", err)
		}
		return nil
	})
	client(func() error { // downloads
		resp, err := http.Get("http://" + u.addresses["tcp"] + "/large")
		if err != nil {
			return fmt.Errorf("download: %w", err)
		}
		defer resp.Body.Close()
		if n, err := io.Copy(io.Discard, resp.Body); n != largeSize || err != nil {
			return fmt.Errorf("download: %d bytes, %w", n, err)
		}
		return nil
	})
	client(func() error { // uploads
		c, err := u.dial("unix")
		if err != nil {
			return fmt.Errorf("upload: %w", err)
		}
		defer c.close()
		const pieces, size = 50, 10_000
		fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces*size)
		piece := make([]byte, size)
		for range pieces - 1 {
			if _, err := c.Write(piece); err != nil {
				return fmt.Errorf("upload: %w", err)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if _, _, err := c.ask(string(piece)); err != nil {
			return fmt.Errorf("upload: %w", err)
		}
		return nil
	})
	for range 2 {
		client(func() error { // WebSockets
			c, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
			if err != nil {
				return fmt.Errorf("websocket: %w", err)
			}
			defer c.Close()
			for i := range 100 {
				text := fmt.Sprint(i)
				if err := c.WriteMessage(gorilla.TextMessage, []byte(text)); err != nil {
					return fmt.Errorf("websocket: %w", err)
				}
				if _, got, err := c.ReadMessage(); string(got) != text || err != nil {
					return fmt.Errorf("websocket: %q, %w", got, err)
				}
				time.Sleep(10 * time.Millisecond)
			}
			sockets.Add(1)
			return nil
		})
	}
	for i := range upgrades {
		for j := range reloads / upgrades {
			before := strings.Count(u.log.String(), "msg=reloaded")
			u.write("lwango.conf", fmt.Sprintf("keep_alive_timeout = \"%dm\"\n%s", 1+j%2, u.config))
			must.Do(t, syscall.Kill(u.mustPID(), syscall.SIGHUP))
			wait.Until(t, "a reload", func() bool {
				return strings.Count(u.log.String(), "msg=reloaded") > before
			})
		}
		if out, code := u.command(); code != 0 {
			t.Fatalf("upgrade %d: %s", i, out)
		}
	}
	close(stop)
	clients.Wait()
	for _, c := range kept { // idle ones would keep a process that was replaced a moment ago
		if c != nil {
			c.close()
		}
	}
	if ended.Load() < 6 {
		t.Errorf("%d connections were asked to end, want those of 6 clients at least", ended.Load())
	}
	t.Logf(
		"%d requests and transfers, %d WebSockets, %d connections ended by an upgrade, %d reloads, %d "+
			"upgrades",
		done.Load(), sockets.Load(), ended.Load(), reloads/upgrades*upgrades, upgrades)
}

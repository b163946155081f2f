package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/wait"
	"golang.org/x/sys/unix"
)

// behaviour is a variable with the name of a file that says what the test program does at its
// start, once; see misbehave. With it, the test binary is that program.
const behaviour = "LWANGO_TEST_BEHAVIOUR"

// noExitSleep: a program under the race detector otherwise takes a second to exit.
const noExitSleep = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if file := os.Getenv(behaviour); file != "" {
		os.Exit(upgradeProgram(file))
	}
	os.Exit(m.Run())
}

// upgradeProgram is a server of which every answer has the number of its process.
func upgradeProgram(file string) int {
	misbehave(file)
	server.SetUpgradeWait(5 * time.Second)
	o, code := server.Parse(os.Args[1:], flag.NewFlagSet("", flag.ContinueOnError), os.Stdout, os.Stderr)
	if o == nil {
		return code
	}
	p := server.NewProgram(server.Builtin())
	p.Handle("/", func(req *conn.Request, resp *conn.Response) int {
		n, err := io.Copy(io.Discard, req.Body())
		if err != nil {
			return 400
		}
		fmt.Fprintf(resp, "%d %d\n", os.Getpid(), n)
		return 200
	})
	p.Handle("/large", func(req *conn.Request, resp *conn.Response) int {
		piece := bytes.Repeat([]byte("x"), largeSize/largePieces)
		for range largePieces {
			if resp.Write(piece); resp.Flush() != nil || req.Sleep(20*time.Millisecond) != nil {
				return 500
			}
		}
		return 200
	})
	p.Handle("/socket", func(req *conn.Request, resp *conn.Response) int {
		c, err := new(websocket.Upgrader).Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		for {
			kind, text, err := c.ReadMessage()
			if err != nil {
				return 0
			}
			if c.WriteMessage(kind, text) != nil {
				return 0
			}
		}
	})
	p.Handle("/fail", func(req *conn.Request, _ *conn.Response) int {
		failLoop(req.Thread.FD())
		return 200
	})
	return p.Main(context.Background(), o, "", os.Stdout, os.Stderr)
}

// failLoop puts another file in the place of the epoll instance that watches fd.
func failLoop(fd int) {
	all, _ := os.ReadDir("/proc/self/fdinfo")
	for _, entry := range all {
		text, _ := os.ReadFile("/proc/self/fdinfo/" + entry.Name())
		if regexp.MustCompile(fmt.Sprintf(`(?m)^tfd: +%d `, fd)).Match(text) {
			epoll, _ := strconv.Atoi(entry.Name())
			null, _ := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
			_ = syscall.Dup3(null, epoll, syscall.O_CLOEXEC)
		}
	}
}

const largeSize, largePieces = 2 << 20, 64

// misbehave does what the file says, and empties it: the next start is in order.
func misbehave(file string) {
	text, _ := os.ReadFile(file)
	if len(text) > 0 {
		_ = os.WriteFile(file, nil, 0o600)
	}
	switch what := string(text); what {
	case "":
	case "crash":
		panic("crash")
	case "leave":
		os.Exit(0)
	case "noise":
		_, _ = os.NewFile(3, "").WriteString("this is no message")
		time.Sleep(time.Hour)
	case "later": // as a later release might, it says more, and then becomes ready
		_, _ = syscall.Write(3, []byte(`{"serves":"all"} ["x"] {"ready":{}} {"more":1}`))
	case "hang":
		time.Sleep(time.Hour)
	default: // a file, for which it waits
		for {
			if _, err := os.Stat(what); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// upgraded is a server of this test binary, with all processes that follow.
type upgraded struct {
	t         *testing.T
	dir       string
	addresses map[string]string // by what the configuration says
	log       *lockedLog
	first     *os.Process
	gone      chan struct{} // the first process has ended
	config    string
	tls       *tls.Config // for the address "tls"
}

type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startUpgraded starts the program on a TCP and a UNIX address.
func startUpgraded(t *testing.T, more string) *upgraded {
	t.Helper()
	return startUpgradedBy(t, func(*exec.Cmd) {}, more)
}

// startUpgradedBy is startUpgraded with a command that change has changed.
func startUpgradedBy(t *testing.T, change func(*exec.Cmd), more string) *upgraded {
	t.Helper()
	dir := t.TempDir()
	u := &upgraded{t: t, dir: dir, log: new(lockedLog), gone: make(chan struct{}), addresses: map[string]string{}}
	u.config = fmt.Sprintf("pid_file = \"pid\"\n%s\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		"[[listener]]\naddress = \"unix:%s/socket\"\n", more, dir)
	u.write("lwango.conf", u.config)
	u.write("behaviour", "")
	cmd := exec.Command(os.Args[0], "-c", filepath.Join(dir, "lwango.conf"))
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+filepath.Join(dir, "behaviour"))
	change(cmd)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w // a file: the processes that follow have it, too
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	read := make(chan struct{})
	go func() { _, _ = io.Copy(u.log, r); close(read) }()
	u.first = cmd.Process
	go func() { _ = cmd.Wait(); close(u.gone) }()
	t.Cleanup(func() {
		for { // all that have the log
			if pid, err := u.pid(); err == nil {
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-read:
				if t.Failed() {
					t.Logf("log:\n%s", u.log)
				}
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	u.addresses["tcp"] = u.logged(`msg=listening address=(127\.0\.0\.1:\S+)`)
	u.addresses["unix"] = filepath.Join(dir, "socket")
	u.logged(`msg=listening address=unix`)
	wait.Until(t, "the pid file", func() bool { _, err := u.pid(); return err == nil })
	return u
}

func (u *upgraded) write(name, text string) {
	u.t.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // no reader finds a part of it
		u.t.Fatal(err)
	}
}

// pid returns what the pid file says.
func (u *upgraded) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(u.dir, "pid"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (u *upgraded) mustPID() int {
	u.t.Helper()
	pid, err := u.pid()
	if err != nil {
		u.t.Fatal(err)
	}
	return pid
}

// logged waits for a line.
func (u *upgraded) logged(re string) string {
	u.t.Helper()
	var m []string
	wait.Until(u.t, re, func() bool {
		m = regexp.MustCompile(re).FindStringSubmatch(u.log.String())
		return m != nil
	})
	return m[len(m)-1]
}

// command runs -upgrade.
func (u *upgraded) command() (out string, code int) {
	cmd := exec.Command(os.Args[0], "-c", filepath.Join(u.dir, "lwango.conf"), "-upgrade")
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// served returns which process answers at an address, on a new connection.
func (u *upgraded) served(network string) int {
	u.t.Helper()
	c, err := u.dial(network)
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.close()
	pid, _, err := c.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if err != nil {
		u.t.Fatal(err)
	}
	return pid
}

// servedOnlyBy waits until a process answers alone: the one before ceases a moment later.
func (u *upgraded) servedOnlyBy(pid int) {
	u.t.Helper()
	for _, network := range []string{"tcp", "unix"} {
		for range 20 {
			if got := u.served(network); got != pid {
				u.t.Errorf("%s: process %d answers, want %d", network, got, pid)
			}
		}
	}
}

type upgradeClient struct {
	net.Conn
	r *bufio.Reader
}

func (u *upgraded) dial(network string) (*upgradeClient, error) {
	how := network
	if network == "tls" {
		how = "tcp"
	}
	c, err := net.Dial(how, u.addresses[network])
	if err != nil {
		return nil, err
	}
	if network == "tls" {
		c = tls.Client(c, u.tls)
	}
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	return &upgradeClient{c, bufio.NewReader(c)}, nil
}

func (c *upgradeClient) close() { c.Close() }

// ask sends a request whose answer has the number of the process, and reports whether the
// connection ends.
func (c *upgradeClient) ask(request string) (pid int, last bool, err error) {
	if _, err := io.WriteString(c, request); err != nil {
		return 0, false, err
	}
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return 0, false, err
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, false, err
	}
	if resp.StatusCode != 200 {
		return 0, false, fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = fmt.Sscan(string(text), &pid)
	return pid, resp.Close, err
}

// TestUpgrade: a new process takes the place of the old one, which answers what its connections
// ask for once more, keeps what is under way, and ends. The number of loops may change.
func TestUpgrade(t *testing.T) {
	u := startUpgraded(t, "threads = 3")
	kept, err := u.dial("tcp")
	if err != nil {
		t.Fatal(err)
	}
	old := u.mustPID()
	if pid, last, err := kept.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || last || err != nil {
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
	if want := fmt.Sprintf("process %d has taken the place of process %d\n", next, old); code != 0 || out != want || next == old {
		t.Fatalf("code %d, %q, want %q", code, out, want)
	}
	u.servedOnlyBy(next)
	if pid, last, err := kept.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || !last || err != nil {
		t.Errorf("kept connection: %d, last %v, %v", pid, last, err)
	}
	kept.close()
	if err := syscall.Kill(old, syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	u.logged("upgrade refused: another process has taken the place of this one")
	for range 3 {
		if err := socket.WriteMessage(gorilla.TextMessage, []byte("here")); err != nil {
			t.Fatal(err)
		}
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
	if err := syscall.Kill(last, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the end of the pid file", func() bool { _, err := u.pid(); return errors.Is(err, os.ErrNotExist) })
	if out, code := u.command(); code != 1 || !strings.Contains(out, "no server runs") {
		t.Errorf("no server: %q, code %d", out, code)
	}
}

// TestUpgradedServerLeavesAddress: what the new process closes is closed, though the old one drains.
func TestUpgradedServerLeavesAddress(t *testing.T) {
	u := startUpgraded(t, "")
	socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() // it keeps the old process
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	next := u.mustPID()
	refused := func(network string) {
		t.Helper()
		wait.Until(t, "the end of "+network, func() bool {
			c, err := net.Dial(network, u.addresses[network])
			if err == nil {
				c.Close()
			}
			return err != nil
		})
	}

	// A reload leaves the TCP address.
	unix := strings.SplitAfter(u.config, "pid_file = \"pid\"\n")[0] + "[[listener]]\n" +
		u.config[strings.Index(u.config, "address = \"unix"):]
	u.write("lwango.conf", unix)
	if err := syscall.Kill(next, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	u.logged("no longer listening. address=127")
	refused("tcp")
	if got := u.served("unix"); got != next {
		t.Errorf("process %d answers, want %d", got, next)
	}

	// The end of the new process closes the rest, and removes the file.
	if err := syscall.Kill(next, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	refused("unix")
	wait.Until(t, "the end of the pid file", func() bool { _, err := u.pid(); return errors.Is(err, os.ErrNotExist) })
	if err := socket.WriteMessage(gorilla.TextMessage, []byte("here")); err != nil {
		t.Error(err)
	}
	if _, text, err := socket.ReadMessage(); string(text) != "here" || err != nil {
		t.Error(string(text), err)
	}
}

// TestUpgradeFails: whatever the new process does instead of getting ready, the old one goes on.
func TestUpgradeFails(t *testing.T) {
	u := startUpgraded(t, "threads = 2")
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
	if out, code := u.command(); code != 1 || !strings.Contains(out, "failed: it refuses its configuration") {
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

// TestUpgradeCommandMistrusts: the folder of the pid file may belong to the server's user. What that
// puts there neither holds up the command of root, nor shows it another file, nor lets it send a
// signal to another process.
func TestUpgradeCommandMistrusts(t *testing.T) {
	u := startUpgraded(t, "")
	result := filepath.Join(u.dir, "pid.upgrade")
	u.write("ok", "ok: all is well\n")
	for _, test := range []struct {
		what, want string
		put        func() error
	}{
		{"link", "too many levels of symbolic links", func() error { return os.Symlink("ok", result) }},
		{"pipe", "is no regular file", func() error { return syscall.Mkfifo(result, 0o600) }},
	} {
		gate := filepath.Join(u.dir, test.what)
		u.write("behaviour", gate)
		before := strings.Count(u.log.String(), "upgrade begins")
		said := make(chan string, 1)
		go func() { out, code := u.command(); said <- fmt.Sprint(code, " ", out) }()
		wait.Until(t, "the upgrade", func() bool {
			return strings.Count(u.log.String(), "upgrade begins") > before
		})
		pid := u.mustPID()
		if err := os.Remove(result); err != nil {
			t.Fatal(err)
		}
		if err := test.put(); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-said:
			if !strings.HasPrefix(got, "1 ") || !strings.Contains(got, test.want) {
				t.Errorf("%s: %s, want %s", test.what, got, test.want)
			}
		case <-time.After(wait.Patience):
			t.Fatalf("%s: the command waits", test.what)
		}
		u.write(test.what, "")
		wait.Until(t, "the new process", func() bool { return u.mustPID() != pid })
	}
}

// TestUpgradeCommandNeedsFile: a pid file is a file.
func TestUpgradeCommandNeedsFile(t *testing.T) {
	dir := t.TempDir()
	conf, pid := filepath.Join(dir, "lwango.conf"), filepath.Join(dir, "pid")
	if err := os.WriteFile(conf, []byte("pid_file = \"pid\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		want string
		put  func() error
	}{
		{"too many levels of symbolic links", func() error { return os.Symlink("elsewhere", pid) }},
		{"is no regular file", func() error { return syscall.Mkfifo(pid, 0o600) }},
	} {
		if err := test.put(); err != nil {
			t.Fatal(err)
		}
		// The second one is a start.
		for _, args := range [][]string{{"-c", conf, "-upgrade"}, {"-c", conf, "-l", "127.0.0.1:0"}} {
			ctx, cancel := context.WithTimeout(t.Context(), wait.Patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], args...)
			cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), test.want) {
				t.Errorf("%v: code %d, %s, want %s", args, code, out, test.want)
			}
		}
		if err := os.Remove(pid); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpgradeOfDebug: after an upgrade the new process answers at a port of [debug], and not now this
// one and now the old one; if the new one fails, it is the old one again. A profile goes on.
func TestUpgradeOfDebug(t *testing.T) {
	// The port is this test's, which does not listen at it.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := fmt.Sprintf("127.0.0.1:%d", bound.(*unix.SockaddrInet4).Port)
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
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	if err := syscall.Kill(u.mustPID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	u.logged(`(?s)upgrade failed, this process goes on.*debug: listening`)
	answersWith(true)
}

// TestUpgradeByAnother: a command finds the server also where it cannot read the configuration as the
// server does, which has a credential of the manager.
func TestUpgradeByAnother(t *testing.T) {
	u := startUpgradedBy(t, func(cmd *exec.Cmd) {
		cmd.Env = append(cmd.Env, "LWANGO_TEST_CREDENTIAL=secret")
	}, "[headers]\nx-secret = \"${LWANGO_TEST_CREDENTIAL}\"")
	if out, code := u.command(); code != 0 {
		t.Errorf("code %d, %q", code, out)
	}
	u.servedOnlyBy(u.mustPID())
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

// TestUpgradeKilled: kill -9 of either process, at any time, leaves the other one serving.
func TestUpgradeKilled(t *testing.T) {
	begin := func(t *testing.T) (u *upgraded, old, next int, release func()) {
		u = startUpgraded(t, "threads = 2")
		gate := filepath.Join(u.dir, "gate")
		u.write("behaviour", gate)
		old = u.mustPID()
		if err := syscall.Kill(old, syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		next, _ = strconv.Atoi(u.logged(`upgrade begins.* pid=(\d+)`))
		return u, old, next, func() { u.write("gate", "") }
	}
	kill := func(t *testing.T, pid int) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("new one before it is ready", func(t *testing.T) {
		u, old, next, _ := begin(t)
		if err := syscall.Kill(old, syscall.SIGUSR2); err != nil { // twice
			t.Fatal(err)
		}
		u.logged("upgrade refused: one is under way")
		kill(t, next)
		u.logged("upgrade failed, this process goes on.*signal: killed")
		u.servedOnlyBy(old)
	})
	t.Run("old one before the new one is ready", func(t *testing.T) {
		u, old, next, release := begin(t)
		kill(t, old)
		<-u.gone
		release()
		u.logged("the process before has ended already")
		u.servedOnlyBy(next)
		wait.Until(t, "the pid file", func() bool { pid, _ := u.pid(); return pid == next })
		if out, code := u.command(); code != 0 { // and it can be replaced
			t.Error(out, code)
		}
	})
	t.Run("old one while a command waits", func(t *testing.T) {
		u := startUpgraded(t, "")
		u.write("behaviour", filepath.Join(u.dir, "gate"))
		said := make(chan string)
		go func() { out, code := u.command(); said <- fmt.Sprint(code, " ", out) }()
		u.logged("upgrade begins")
		kill(t, u.first.Pid)
		want := fmt.Sprintf("1 lwango: -upgrade: process %d has ended before the new one was ready", u.first.Pid)
		select {
		case got := <-said:
			if !strings.HasPrefix(got, want) || !strings.Contains(got, "systemd ends it, and starts the service anew") {
				t.Errorf("%s, want %s", got, want)
			}
		case <-time.After(wait.Patience):
			t.Error("the command waits")
		}
		u.write("gate", "")
		u.logged("the process before has ended already")
	})
	t.Run("new one while the old one drains", func(t *testing.T) {
		u, old, next, release := begin(t)
		socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close() // it keeps the old one
		release()
		u.logged("replaced by a new process")
		u.servedOnlyBy(next)
		kill(t, next)
		u.logged("upgrade failed, this process goes on.*signal: killed")
		u.servedOnlyBy(old)
		if got := u.mustPID(); got != old {
			t.Errorf("the pid file has %d, want %d", got, old)
		}
		if out, code := u.command(); code != 0 {
			t.Fatal(out, code)
		}
		u.servedOnlyBy(u.mustPID())
	})
	t.Run("middle one of three", func(t *testing.T) {
		u, old, middle, release := begin(t)
		socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close() // it keeps the first one
		release()
		u.logged("replaced by a new process")
		u.servedOnlyBy(middle)
		gate := filepath.Join(u.dir, "second")
		u.write("behaviour", gate)
		if err := syscall.Kill(middle, syscall.SIGUSR2); err != nil {
			t.Fatal(err)
		}
		last, _ := strconv.Atoi(u.logged(`(?s)upgrade begins.*upgrade begins.* pid=(\d+)`))
		kill(t, middle)
		wait.Until(t, "the end of the middle one", func() bool {
			return errors.Is(syscall.Kill(middle, 0), syscall.ESRCH)
		})
		u.write("second", "")
		u.logged("the process before has ended already")
		u.servedOnlyBy(last)
		if got := u.mustPID(); got != last {
			t.Errorf("the pid file has %d, want %d, and not %d", got, last, old)
		}
	})
	t.Run("old one while it drains", func(t *testing.T) {
		u, old, next, release := begin(t)
		socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		release()
		u.logged("replaced by a new process")
		kill(t, old)
		<-u.gone
		u.servedOnlyBy(next)
	})
	t.Run("old one stops while the new one starts", func(t *testing.T) {
		u, old, next, _ := begin(t)
		if err := syscall.Kill(old, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-u.gone
		wait.Until(t, "the end of the new process", func() bool {
			return errors.Is(syscall.Kill(next, 0), syscall.ESRCH) || zombie(next)
		})
	})
}

// fail lets a loop of the process that serves fail.
func (u *upgraded) fail() {
	u.t.Helper()
	c, err := u.dial("tcp")
	if err != nil {
		u.t.Fatal(err)
	}
	defer c.close()
	_, _, _ = c.ask("GET /fail HTTP/1.1\r\nHost: x\r\n\r\n")
}

// TestUpgradedServerFails: if a loop of the new process fails while the old one drains, the old one
// takes its place, with all files. If the old one has gone, the new one leaves none behind.
func TestUpgradedServerFails(t *testing.T) {
	m := listenAsManager(t)
	u := startUpgraded(t, "threads = 2")
	m.told("READY=1")
	old := u.mustPID()
	socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close() // it keeps the old one
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	next := u.mustPID()
	m.told(fmt.Sprintf("MAINPID=%d", next))
	u.servedOnlyBy(next)
	u.fail()
	u.logged("upgrade failed, this process goes on.*it fails")
	m.told(fmt.Sprintf("MAINPID=%d", old))
	wait.Until(t, "the end of the new process", func() bool {
		return errors.Is(syscall.Kill(next, 0), syscall.ESRCH) || zombie(next) // the manager is this process
	})
	u.servedOnlyBy(old)
	if got := u.mustPID(); got != old {
		t.Errorf("the pid file has %d, want %d", got, old)
	}

	if out, code := u.command(); code != 0 { // the pid file is still the server's
		t.Fatal(out, code)
	}
	u.servedOnlyBy(u.mustPID())
	socket.Close()
	<-u.gone
	u.fail()
	for _, name := range []string{"pid", "socket"} {
		wait.Until(t, "the end of "+name, func() bool {
			_, err := os.Lstat(filepath.Join(u.dir, name))
			return errors.Is(err, os.ErrNotExist)
		})
	}
}

// TestUpgradedServerFailsAlone: a new process that fails while the old one stops does not give back,
// but ends as any server that fails, so that the manager starts another one.
func TestUpgradedServerFailsAlone(t *testing.T) {
	m := listenAsManager(t)
	u := startUpgraded(t, "threads = 2\ngrace = \"1m\"")
	m.told("READY=1")
	old := u.mustPID()
	c, err := u.dial("tcp")
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if pid, _, err := c.ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"); pid != old || err != nil {
		t.Fatal(pid, err)
	}
	fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo") // it keeps the old one
	if out, code := u.command(); code != 0 {
		t.Fatal(out, code)
	}
	next := u.mustPID()
	m.told(fmt.Sprintf("MAINPID=%d", next))
	if err := syscall.Kill(old, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	u.logged("msg=stopping signal=terminated")
	u.fail()
	m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=[0-9]+`)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(next, &status, 0, nil); err != nil || status.ExitStatus() != 1 {
		t.Errorf("the new process ends with %d, %v, want 1", status.ExitStatus(), err)
	}
	if pid, last, err := c.ask("dy"); pid != old || !last || err != nil {
		t.Errorf("the request in flight: %d, last %v, %v", pid, last, err)
	}
	<-u.gone
	for _, name := range []string{"pid", "socket"} {
		if _, err := os.Lstat(filepath.Join(u.dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}

// TestLastWords: an old process that stops knows what the new one has said until then, and what that
// says later is refused.
func TestLastWords(t *testing.T) {
	for _, test := range []struct {
		said string
		back bool
	}{
		{``, false},
		{`{"ready":true}{"serves":[]}{"ba`, false},
		{`{"ready":true}{"serves":[]}{"back":true}`, true},
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		news, next := os.NewFile(uintptr(pair[0]), "old"), os.NewFile(uintptr(pair[1]), "new")
		cmd := exec.Command("true") // it stands for the new process
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := next.WriteString(test.said); err != nil {
			t.Fatal(err)
		}
		u := server.Watched(cmd.Process, news)
		if got := u.HearOut(); got != test.back {
			t.Errorf("after %q: %v, want %v", test.said, got, test.back)
		}
		if _, err := next.WriteString(`{"back":true}`); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("what comes later: %v", err)
		}
		u.GiveUp()
		next.Close()
	}
}

// zombie reports whether a process has ended and only its number is left.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(text, []byte(") Z "))
}

// TestUpgradeUnderManager: sockets of the service manager are handed on, and it is told which process
// is the main one. The new one says nothing until it is.
func TestUpgradeUnderManager(t *testing.T) {
	m := listenAsManager(t)
	t.Setenv("WATCHDOG_USEC", "1000000")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	u := startUpgradedBy(t, func(cmd *exec.Cmd) {
		// The process must know its own number before it becomes the server.
		args := append([]string{"-c", "export LISTEN_PID=$$ WATCHDOG_PID=$$; exec \"$0\" \"$@\"", cmd.Path}, cmd.Args[1:]...)
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh"}, args...)
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=web")
		cmd.ExtraFiles = []*os.File{f}
	}, "[[listener]]\naddress = \"systemd:web\"")
	m.told("READY=1")
	m.told("WATCHDOG=1")
	u.addresses["tcp"] = ln.Addr().String()
	ln.Close()
	f.Close()
	for range 2 {
		if out, code := u.command(); code != 0 {
			t.Fatal(out, code)
		}
		next := u.mustPID()
		m.told(fmt.Sprintf("MAINPID=%d", next))
		m.told("WATCHDOG=1")
		u.servedOnlyBy(next)
	}
	if err := syscall.Kill(u.mustPID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=[0-9]+`)
}

// TestUpgradeWithoutPIDFile: where the new configuration has no pid_file, the old process removes it.
func TestUpgradeWithoutPIDFile(t *testing.T) {
	u := startUpgraded(t, "")
	u.write("lwango.conf", strings.Replace(u.config, "pid_file = \"pid\"\n", "", 1))
	if err := syscall.Kill(u.mustPID(), syscall.SIGUSR2); err != nil {
		t.Fatal(err)
	}
	<-u.gone
	if _, err := u.pid(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
	next, err := strconv.Atoi(u.logged(`upgrade begins.* pid=(\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	u.servedOnlyBy(next)
	if err := syscall.Kill(next, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// TestPIDFile: a second server with the same file does not start, and does not touch it.
func TestPIDFile(t *testing.T) {
	u := startUpgraded(t, "")
	cmd := exec.Command(os.Args[0], "-c", filepath.Join(u.dir, "lwango.conf"), "-l", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 ||
		!strings.Contains(string(out), fmt.Sprintf("a server runs already, as process %d", u.first.Pid)) {
		t.Errorf("code %d, %s", code, out)
	}
	if got := u.mustPID(); got != u.first.Pid {
		t.Errorf("the file has %d, want %d", got, u.first.Pid)
	}

	// A file that a killed server has left is nobody's: -upgrade sends no signal to what its number
	// is now, and the next server takes it.
	if err := u.first.Kill(); err != nil {
		t.Fatal(err)
	}
	<-u.gone
	u.write("pid", fmt.Sprintf("%d\n", os.Getpid())) // SIGUSR2 would end this test
	if out, code := u.command(); code != 1 || !strings.Contains(out, "no server runs") {
		t.Errorf("code %d, %s", code, out)
	}
	cmd = exec.Command(os.Args[0], "-c", filepath.Join(u.dir, "lwango.conf"))
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+os.DevNull)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the new number", func() bool { pid, _ := u.pid(); return pid == cmd.Process.Pid })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestUpgradeUnderLoad: reloads and upgrades while clients of all kinds are busy fail no request
// and cut no transfer.
func TestUpgradeUnderLoad(t *testing.T) {
	reloads, upgrades := 20, 3
	if s := os.Getenv("LWANGO_UPGRADES"); s != "" { // for a longer run
		upgrades, _ = strconv.Atoi(s)
		reloads = 10 * upgrades
	}
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(1000*time.Hour, "127.0.0.2"))
	u := startUpgraded(t, fmt.Sprintf("threads = 2\n[[listener]]\naddress = \"127.0.0.2:0\"\ntls = { cert = %q, key = %q }",
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
			if err := syscall.Kill(u.mustPID(), syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "a reload", func() bool { return strings.Count(u.log.String(), "msg=reloaded") > before })
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
	t.Logf("%d requests and transfers, %d WebSockets, %d connections ended by an upgrade, %d reloads, %d upgrades",
		done.Load(), sockets.Load(), ended.Load(), reloads/upgrades*upgrades, upgrades)
}

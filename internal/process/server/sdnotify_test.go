package server_test

import (
	"context"
	"flag"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// serviceManager listens as systemd does.
type serviceManager struct {
	t      *testing.T
	socket *net.UnixConn
}

func listenAsManager(t *testing.T) *serviceManager {
	t.Helper()
	name := filepath.Join(t.TempDir(), "notify")
	socket := must.Get(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"}))(t)
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return &serviceManager{t, socket}
}

// told waits for what the program says next, apart from heartbeats.
func (m *serviceManager) told(want string) {
	m.t.Helper()
	b := make([]byte, 4096)
	for {
		_ = m.socket.SetReadDeadline(time.Now().Add(wait.Patience))
		n := must.Get(m.socket.Read(b))(m.t)
		got := string(b[:n])
		if got == "WATCHDOG=1" && want != got {
			continue
		}
		if !regexp.MustCompile("^(?:" + want + ")$").MatchString(got) {
			m.t.Fatalf("told %q, want %q", got, want)
		}
		return
	}
}

// TestServiceManager: the manager is told of start, reload, stop, and, if it asks for that, that
// the loops turn; not while one does not.
func TestServiceManager(t *testing.T) {
	m := listenAsManager(t)
	t.Setenv("WATCHDOG_USEC", "20000")
	o, _ := server.Parse([]string{"-l", "127.0.0.1:0"}, flag.NewFlagSet("", flag.ContinueOnError),
		io.Discard, io.Discard)
	p := server.NewProgram(config.Builtin())
	held, release := make(chan struct{}), make(chan struct{})
	p.Handle("/", func(*conn.Request, *conn.Response) int {
		close(held)
		<-release // on the loop
		return 204
	})
	r, log := io.Pipe()
	lines := make(chan string, 100)
	go scan(r, lines)
	done := make(chan int, 1)
	go func() { done <- p.Main(t.Context(), o, "", io.Discard, log) }()
	m.told(`READY=1\nSTATUS=serving at .*`)
	m.told("WATCHDOG=1")
	m.told("WATCHDOG=1")
	must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	m.told(`RELOADING=1\nMONOTONIC_USEC=[0-9]+`)
	m.told(`READY=1\nSTATUS=serving at .*`)

	address := logged(t, lines, `msg=listening address=(\S+)`)
	c := must.Dial(t, "tcp", address)
	must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))(t)
	<-held
	// Those that were on their way come; then there is silence.
	end := time.Now().Add(wait.Patience)
	for b := make([]byte, 100); ; {
		// ten of the manager's periods
		_ = m.socket.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := m.socket.Read(b); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("heartbeats go on while a loop is held up")
		}
	}
	close(release)
	m.told("WATCHDOG=1")
	must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
	m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=6000000\nSTATUS=stopping: [0-9]+ connections have 5s`)
	if code := <-done; code != 0 {
		t.Errorf("code %d", code)
	}
	log.Close()
}

// TestServiceManagerGone: a manager that is not there, and one that does not read, hold up nothing.
func TestServiceManagerGone(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	if code, _ := runFor(t); code != 0 {
		t.Errorf("no socket: code %d", code)
	}
	m := listenAsManager(t)
	defer server.SetSendLimit(50 * time.Millisecond)()
	full := must.Get(net.DialUnix("unixgram", nil, m.socket.LocalAddr().(*net.UnixAddr)))(t)
	defer full.Close()
	raw := must.Get(full.SyscallConn())(t)
	must.Do(t, raw.Control(func(fd uintptr) {
		// until the manager's queue is full
		for err := error(nil); err == nil; _, err = unix.Write(int(fd), []byte("x")) {
		}
	}))
	if code, log := runFor(t); code != 0 || !strings.Contains(log, "cannot be told") {
		t.Errorf("no reader: code %d\n%s", code, log)
	}
}

// runFor runs a program until it listens, stops it, and returns its exit code and its log.
func runFor(t *testing.T) (code int, log string) {
	t.Helper()
	o, _ := server.Parse([]string{"-l", "127.0.0.1:0"}, flag.NewFlagSet("", flag.ContinueOnError),
		io.Discard, io.Discard)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r, w := io.Pipe()
	lines := make(chan string, 100)
	go scan(r, lines)
	done := make(chan int, 1)
	go func() {
		done <- server.NewProgram(config.Builtin()).Main(ctx, o, "", io.Discard, w)
		w.Close()
	}()
	for line := range lines {
		if log += line + "\n"; strings.Contains(line, "msg=listening") {
			stop()
		}
	}
	return <-done, log
}

// TestUnits: systemd finds the units in order, and confined.
func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		ci.Lacks(t, "systemd-analyze (package systemd)")
	}
	// verify looks for the program.
	dir := t.TempDir()
	for _, unit := range []string{"lwango.service", "lwango.socket"} {
		text := must.Get(os.ReadFile("../../../contrib/systemd/" + unit))(t)
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/lwango", "/bin/true"))
		must.Do(t, os.WriteFile(filepath.Join(dir, unit), text, 0o600))
	}
	service := filepath.Join(dir, "lwango.service")
	for _, args := range [][]string{
		{"verify", service, filepath.Join(dir, "lwango.socket")},
		{"security", "--offline=true", "--threshold=20", service}, // tenths
	} {
		out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
		if err != nil || args[0] == "verify" && strings.Contains(string(out), "lwango.") {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}

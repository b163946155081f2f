package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
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
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// behaviour is a variable with the name of a file that says what the test program does at its
// start, once; see misbehave. With it, the test binary is that program.
const behaviour = "LWANGO_TEST_BEHAVIOUR"

// shortWait is a variable with a duration that a new process may take, instead of a minute.
const shortWait = "LWANGO_TEST_UPGRADE_WAIT"

// noExitSleep: a program under the race detector otherwise takes a second to exit.
const noExitSleep = "GORACE=atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	if file := os.Getenv(behaviour); file != "" {
		os.Exit(upgradeProgram(file))
	}
	leak.Parallel(6) // they wait more than they compute
	os.Exit(m.Run())
}

// upgradeProgram is a server of which every answer has the number of its process.
func upgradeProgram(file string) int {
	misbehave(file)
	if d, err := time.ParseDuration(os.Getenv(shortWait)); err == nil {
		server.SetUpgradeWait(d)
	}
	o, code := server.Parse(os.Args[1:], flag.NewFlagSet("", flag.ContinueOnError), os.Stdout,
		os.Stderr)
	if o == nil {
		return code
	}
	p := server.NewProgram(config.Builtin())
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
		req.Thread.Yield() // before a connection first waits, epoll does not know it
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
	log       *logtext.Buffer
	first     *os.Process
	gone      chan struct{} // the first process has ended
	config    string
	tls       *tls.Config // for the address "tls"
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
	u := &upgraded{t: t, dir: dir, log: new(logtext.Buffer), gone: make(chan struct{}),
		addresses: map[string]string{}}
	u.config = fmt.Sprintf("pid_file = \"pid\"\n%s\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		"[[listener]]\naddress = \"unix:%s/socket\"\n", more, dir)
	u.write("lwango.conf", u.config)
	u.write("behaviour", "")
	cmd := exec.Command(os.Args[0], "-c", filepath.Join(dir, "lwango.conf"))
	cmd.Env = append(os.Environ(), noExitSleep, behaviour+"="+filepath.Join(dir, "behaviour"))
	change(cmd)
	r, w := must.Pipe(t)
	cmd.Stdout, cmd.Stderr = w, w // a file: the processes that follow have it, too
	must.Do(t, cmd.Start())
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
				logtext.NoPanic(t, u.log.String())
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
	must.Write(u.t, path+".new", text)
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
	pid := must.Get(u.pid())(u.t)
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
	c := must.Get(u.dial(network))(u.t)
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

// fail lets a loop of the process that serves fail.
func (u *upgraded) fail() {
	u.t.Helper()
	c := must.Get(u.dial("tcp"))(u.t)
	defer c.close()
	_, _, _ = c.ask("GET /fail HTTP/1.1\r\nHost: x\r\n\r\n")
}

// zombie reports whether a process has ended and only its number is left.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(text, []byte(") Z "))
}

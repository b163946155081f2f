package command_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lwango/lwango/internal/command"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
)

// patience is how long a script waits for what must come. It is not spent when things go well.
const patience = time.Minute

// noExitSleep: a program under the race detector otherwise takes a second to exit.
const noExitSleep = "atexit_sleep_ms=0"

func TestMain(m *testing.M) {
	leak.Parallel(6) // they wait more than they compute
	testscript.Main(m, map[string]func(){"lwango": func() { os.Exit(command.Main()) }})
}

// The scripts in testdata/script start the program, send requests and stop it. Beside testscript's
// own commands they have those of this file and script_http_test.go:
//
//	start NAME ARGS...     run lwango in the background until it says `listening`; $NAME is its first
//	                       address and $NAME_port the port of that
//	startwith SOCKET NAME ARGS...
//	                       the same with an inherited socket called SOCKET, as systemd starts it;
//	                       $SOCKET is its address
//	signal NAME SIGNAL     TERM, INT, HUP or KILL
//	logged NAME REGEXP     wait until the log has a line that matches
//	exits NAME CODE        wait for the end; -1 is that by a signal. The log goes to stderr
//	code CODE ARGS...      run lwango with these arguments in the foreground and look at its exit
//	                       code
//	gencert FILE NAME      make a certificate and its key in FILE
//	http [-X METHOD] [-H FIELD] [-d BODY] [-host HOST] [-k] ADDRESS/PATH
//	                       one request on a connection of its own; the answer goes to stdout
//	hold ADDRESS/PATH      begins a request body and does not end it
//	release                ends it; the answer goes to stdout
//
// and the condition [root].
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			p := &programs{byName: map[string]*program{}}
			e.Values[programsKey{}] = p
			e.Setenv("GORACE", noExitSleep)
			e.Defer(func() {
				p.kill()
				if p.panic != "" {
					e.T().Fatal("a panic in the log: ", p.panic)
				}
			})
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return os.Geteuid() == 0, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start": func(ts *testscript.TestScript, _ bool, args []string) { start(ts, args, "", nil) },
			"startwith": func(ts *testscript.TestScript, _ bool, args []string) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				ts.Check(err)
				defer ln.Close()
				f, err := ln.(*net.TCPListener).File()
				ts.Check(err)
				defer f.Close()
				ts.Setenv(args[0], ln.Addr().String())
				start(ts, args[1:], args[0], f)
			},
			"code":    code,
			"gencert": gencert,
			"signal":  sendSignal,
			"logged":  logged,
			"exits":   exits,
			"http":    request,
			"hold":    hold,
			"release": release,
		},
	})
}

type programsKey struct{}

// programs are those that a script has started.
type programs struct {
	byName map[string]*program
	held   net.Conn
	panic  string // the first line of a log that tells of one
}

type program struct {
	cmd  *exec.Cmd
	log  logText
	done chan struct{}
}

func (p *programs) kill() {
	for _, prog := range p.byName {
		_ = prog.cmd.Process.Kill()
		<-prog.done
		p.judge(prog)
	}
	if p.held != nil {
		p.held.Close()
	}
}

// judge looks for a panic in the log of a program that has ended.
func (p *programs) judge(prog *program) {
	if p.panic == "" {
		p.panic = logtext.FindPanic(prog.log.String())
	}
}

func running(ts *testscript.TestScript) *programs { return ts.Value(programsKey{}).(*programs) }

func named(ts *testscript.TestScript, name string) *program {
	p := running(ts).byName[name]
	if p == nil {
		ts.Fatalf("no program %s was started", name)
	}
	return p
}

func start(ts *testscript.TestScript, args []string, socket string, inherited *os.File) {
	cmd := exec.Command(binary(ts), args[1:]...)
	if inherited != nil {
		// The process must know its own number before it becomes lwango.
		cmd = exec.Command("sh",
			append([]string{"-c", `export LISTEN_PID=$$; exec "$0" "$@"`, cmd.Path}, args[1:]...)...)
		cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES="+socket)
		cmd.ExtraFiles = []*os.File{inherited}
	}
	prog := &program{cmd: cmd, done: make(chan struct{})}
	prog.log.changed = sync.NewCond(&prog.log.mu)
	cmd.Env = append(cmd.Environ(), "GORACE="+noExitSleep, "WORK="+ts.Getenv("WORK"))
	cmd.Dir = ts.MkAbs(".")
	cmd.Stderr = &prog.log
	ts.Check(cmd.Start())
	running(ts).byName[args[0]] = prog
	go func() {
		_ = cmd.Wait() // `exits` looks at the state
		prog.log.end()
		close(prog.done)
	}()
	m := prog.log.wait(regexp.MustCompile(`msg=listening address=(\S+)`))
	if m == nil {
		ts.Fatalf("%s did not listen:\n%s", args[0], prog.log.String())
	}
	address := strings.Replace(strings.Trim(m[1], `"`), "*:", "127.0.0.1:", 1)
	ts.Setenv(args[0], address)
	if _, port, err := net.SplitHostPort(address); err == nil {
		ts.Setenv(args[0]+"_port", port)
	}
}

// binary finds the lwango that testscript has put into the script's PATH.
func binary(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, "lwango")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	ts.Fatalf("no lwango in PATH")
	return ""
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	cmd := exec.Command(binary(ts), args[1:]...)
	cmd.Env = append(cmd.Environ(), "GORACE="+noExitSleep)
	cmd.Dir = ts.MkAbs(".")
	out, _ := cmd.CombinedOutput()
	fmt.Fprint(ts.Stderr(), string(out))
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("lwango %v: code %s, want %s:\n%s", args[1:], got, args[0], out)
	}
}

func gencert(ts *testscript.TestScript, neg bool, args []string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: args[1]},
		DNSNames:     []string{args[1]},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	sig, ok := map[string]os.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1,
		"KILL": syscall.SIGKILL,
	}[args[1]]
	if !ok {
		ts.Fatalf("unknown signal %s", args[1])
	}
	ts.Check(named(ts, args[0]).cmd.Process.Signal(sig))
}

func logged(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args[0])
	re := regexp.MustCompile(args[1])
	if neg {
		if re.MatchString(p.log.String()) {
			ts.Fatalf("the log of %s has %q:\n%s", args[0], args[1], p.log.String())
		}
		return
	}
	if p.log.wait(re) == nil {
		ts.Fatalf("the log of %s does not have %q:\n%s", args[0], args[1], p.log.String())
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args[0])
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s goes on:\n%s", args[0], p.log.String())
	}
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("%s ended with code %s (%v), want %s:\n%s", args[0], got, p.cmd.ProcessState, args[1],
			p.log.String())
	}
	delete(running(ts).byName, args[0])
	running(ts).judge(p)
	fmt.Fprint(ts.Stderr(), p.log.String())
}

// logText is what a program has written so far.
type logText struct {
	mu      sync.Mutex
	changed *sync.Cond
	text    []byte
	ended   bool
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.changed.Broadcast()
	return len(p), nil
}

func (l *logText) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.changed.Broadcast()
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// wait returns the first match, and nil if the program ends without one or takes too long.
func (l *logText) wait(re *regexp.Regexp) []string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if m := re.FindStringSubmatch(string(l.text)); m != nil || l.ended || ctx.Err() != nil {
			return m
		}
		l.changed.Wait()
	}
}

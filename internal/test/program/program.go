// Package program lets the test of a program run it: the test's binary starts itself once more,
// as the program. So the test runs what `go run` would run.
package program

import (
	"bufio"
	"fmt"
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

	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

const variable = "LWANGO_SAMPLE"

// Main is for TestMain; main is the program's. Tests that leave something behind fail (leak.Main).
func Main(m *testing.M, main func()) {
	if os.Getenv(variable) != "" {
		main()
		os.Exit(0)
	}
	leak.Parallel(6) // they wait for the program more than they compute
	leak.Main(m)
}

// Command is the program with these arguments, in a folder of its own.
func Command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	return cmd
}

// Configure writes lwango.conf in a folder, and returns its path.
func Configure(t *testing.T, dir, text string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "lwango.conf")
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	return file
}

// Fails runs the program with these arguments. It has to end by itself with this exit code, and its
// output, which Fails returns, has to have all these texts.
func Fails(t *testing.T, args []string, code int, texts ...string) (out string) {
	t.Helper()
	cmd := Command(t, args...)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		t.Errorf("%q: %v, want exit code %d; its output:\n%s", args, err, code, text)
	}
	out = string(text)
	for _, want := range texts {
		if !strings.Contains(out, want) {
			t.Errorf("%q: %q is not in its output:\n%s", args, want, out)
		}
	}
	return out
}

// Server is a program that listens.
type Server struct {
	Address string // the first, host:port
	cmd     *exec.Cmd
	ended   chan struct{} // closed when it has ended and its log is read

	mu    sync.Mutex
	log   strings.Builder
	lines chan struct{} // closed, and replaced, when there is more of the log
}

// Start runs the program until it listens, on a free port. When the test ends, a SIGTERM ends the
// program in order, and the test shows the program's log if it has failed. A panic in the log fails
// the test.
func Start(t *testing.T, args ...string) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", args...)
}

// StartAt is Start at an address. If another program is to listen there later, its host should be
// the test's own.
func StartAt(t *testing.T, address string, args ...string) *Server {
	t.Helper()
	return start(t, append([]string{"-l", address}, args...)...)
}

// StartConfigured is Start with a configuration, which says where to listen.
func StartConfigured(t *testing.T, file string) *Server {
	t.Helper()
	return start(t, "-c", file)
}

func start(t *testing.T, args ...string) *Server {
	t.Helper()
	s := &Server{
		cmd:   Command(t, args...),
		ended: make(chan struct{}),
		lines: make(chan struct{}),
	}
	stderr := must.Get(s.cmd.StderrPipe())(t)
	must.Do(t, s.cmd.Start())
	go func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.add(lines.Text())
		}
		_ = s.cmd.Wait() // its ProcessState is looked at
		close(s.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-s.ended: // End has said how
		default:
			if code := s.End(t, syscall.SIGTERM); code != 0 {
				t.Errorf("stopped by SIGTERM: exit code %d", code)
			}
		}
		logtext.NoPanic(t, s.Log())
		if t.Failed() {
			t.Logf("log of the program:\n%s", s.log.String())
		}
	})
	s.Address = s.Logged(t, `msg=listening address=(\S+)`)[1]
	return s
}

func (s *Server) add(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.log, line)
	close(s.lines)
	s.lines = make(chan struct{})
}

// Logged waits until a line of the log matches the regular expression, and returns the first match
// with its groups.
func (s *Server) Logged(t *testing.T, expr string) []string {
	t.Helper()
	re := regexp.MustCompile("(?m)" + expr)
	for limit := time.After(wait.Patience); ; {
		s.mu.Lock()
		match, more := re.FindStringSubmatch(s.log.String()), s.lines
		s.mu.Unlock()
		if match != nil {
			return match
		}
		select {
		case <-more:
			continue
		case <-s.ended:
			if match := re.FindStringSubmatch(s.log.String()); match != nil {
				return match
			}
			t.Fatalf("ended before its log had %s", expr)
		case <-limit:
			t.Fatalf("its log has no %s", expr)
		}
	}
}

// Log returns what the program has logged so far; after End, all of it.
func (s *Server) Log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// PID is the program's process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Signal sends the program a signal.
func (s *Server) Signal(signal syscall.Signal) error { return s.cmd.Process.Signal(signal) }

// End sends the program a signal, waits for its end, and returns the exit code, -1 for an end by a
// signal. With signal 0 it waits until the program ends by itself.
func (s *Server) End(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	_ = s.cmd.Process.Signal(signal) // if it has ended already, its exit code tells why
	select {
	case <-s.ended:
	case <-time.After(wait.Patience):
		_ = s.cmd.Process.Kill()
		t.Errorf("does not end after %v", signal)
		<-s.ended
	}
	return s.cmd.ProcessState.ExitCode()
}

// CPU is the processor time that the program has used so far, to the clock tick.
func (s *Server) CPU(t *testing.T) time.Duration {
	t.Helper()
	stat := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)))(t)
	// proc_pid_stat(5): the name, in parentheses, may have spaces; utime and stime are the 12th and
	// 13th after it.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	utime, err1 := strconv.ParseInt(fields[11], 10, 64)
	stime, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		t.Fatalf("cannot read %q", stat)
	}
	return time.Duration(utime+stime) * time.Second / ticksPerSecond
}

const ticksPerSecond = 100 // USER_HZ, on all that Linux runs on

// Package sampletest lets the test of a program run it as one: the test's binary starts itself once more, as the
// program. What runs is what `go run` would.
package sampletest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const variable = "LWANGO_SAMPLE"

// Main is for TestMain; main is the program's.
func Main(m *testing.M, main func()) {
	if os.Getenv(variable) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Command is the program with these arguments, in a folder of its own.
func Command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	return cmd
}

// Server is a program that listens.
type Server struct {
	Address string // the first, host:port
	cmd     *exec.Cmd
	ended   <-chan struct{} // closed when its log has ended
	killed  bool
}

// Start runs the program until it listens, on a free port. When the test ends, a SIGTERM has the program end in order,
// and its log is shown if the test has failed.
func Start(t *testing.T, args ...string) *Server {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", args...)
}

// StartAt is Start for a program that is to listen at an address where another has listened.
func StartAt(t *testing.T, address string, args ...string) *Server {
	t.Helper()
	s := &Server{cmd: Command(t, append([]string{"-l", address}, args...)...)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	listens := make(chan string, 1)
	read := make(chan struct{})
	s.ended = read
	var log strings.Builder // until read is closed it is the goroutine's
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&log, lines.Text())
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				select {
				case listens <- m[1]:
				default:
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // if it has ended already, Wait tells why
		<-read
		if err := s.cmd.Wait(); err != nil && !s.killed {
			t.Errorf("stopped by SIGTERM: %v", err)
		}
		if t.Failed() {
			t.Logf("log of the program:\n%s", log.String())
		}
	})
	select {
	case s.Address = <-listens:
	case <-read:
		t.Fatal("ended before it listened")
	}
	return s
}

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

// Kill ends the program as a crash would, and returns when it is gone.
func (s *Server) Kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.killed = true
	<-s.ended
}

// CPU is the processor time that the program has used so far, to the clock tick.
func (s *Server) CPU(t *testing.T) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	// proc_pid_stat(5): the name, in parentheses, may have spaces; utime and stime are the 12th and 13th after it.
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

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	startLimit = 10 * time.Second
	stopLimit  = 10 * time.Second
)

// server is a started peer.
type server struct {
	peer    peer
	network string
	addr    string
	beside  string // for what the program does beside; empty: nothing
	cmd     *exec.Cmd
	pids    []int // the process and its children (nginx's workers)
	log     *tailLog
	done    chan struct{} // closed when it has exited; err is set before
	err     error
}

// startServer returns when the server has answered the work's request with the right bytes. The caller stops it.
func startServer(ctx context.Context, env *environment, p peer, w work, up *server) (*server, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(env.dir, p.name+"-")
	if err != nil {
		return nil, err
	}
	// nginx's workers give up root and must still reach their folders.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	o := serverOptions{dir: dir, files: filepath.Join(env.dir, "files"), addr: addr, work: w}
	if up != nil {
		o.upstream, o.scripts = up.addr, filepath.Join(env.dir, "scripts")
	}
	if w.kind == beside {
		if o.beside, err = freeAddress(); err != nil {
			return nil, err
		}
	}
	argv, environ, err := p.command(env, o)
	if err != nil {
		return nil, err
	}
	cpu := env.serverCPU
	if w.threads > 1 {
		cpu = unpinned
	}
	s := &server{peer: p, network: "tcp", addr: addr, beside: o.beside}
	if err := s.start(ctx, env, cpu, argv, environ, dir); err != nil {
		return nil, err
	}
	if err := verifyWork(s, w); err != nil {
		s.stop()
		return nil, fmt.Errorf("%w\n%s", err, s.log)
	}
	if err := s.findProcesses(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// start starts a command and returns when something listens at s.addr.
func (s *server) start(ctx context.Context, env *environment, cpu int, argv, environ []string, dir string) error {
	s.log, s.done = &tailLog{}, make(chan struct{})
	s.cmd = exec.Command(env.self, append([]string{"pin", strconv.Itoa(cpu)}, argv...)...)
	s.cmd.Env = append(os.Environ(), environ...)
	s.cmd.Dir = dir
	s.cmd.Stderr = s.log
	// A group of its own: an interrupt typed at the terminal reaches bench alone, which then ends its servers in
	// order, and what a server leaves behind can be ended by the group's id.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	if err := s.waitReady(ctx); err != nil {
		s.stop()
		return fmt.Errorf("%w\n%s", err, s.log)
	}
	return nil
}

// findProcesses must come after an answer: nginx's master listens before it starts its workers.
func (s *server) findProcesses() (err error) {
	s.pids, err = family(s.cmd.Process.Pid)
	return err
}

// waitReady asks every few milliseconds, since not every server says when it is ready.
func (s *server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if s.peer.ready == "" || s.log.hasLine(s.peer.ready, s.addr) {
			if conn, err := net.Dial(s.network, s.addr); err == nil {
				conn.Close()
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.done:
			return fmt.Errorf("ended before it served: %v", s.err)
		case <-ctx.Done():
			return fmt.Errorf("does not serve at %s: %w", s.addr, ctx.Err())
		}
	}
}

// stop ends the server and reports one that did not end as it should.
func (s *server) stop() error {
	pid := s.cmd.Process.Pid
	var late error
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(stopLimit):
		late = fmt.Errorf("still running %v after SIGTERM", stopLimit)
		syscall.Kill(-pid, syscall.SIGKILL)
		<-s.done
	}
	if err := syscall.Kill(-pid, syscall.SIGKILL); err == nil && late == nil {
		late = errors.New("left a process behind")
	}
	if late == nil && s.peer.ends && s.err != nil {
		late = fmt.Errorf("after SIGTERM: %w\n%s", s.err, s.log)
	}
	return late
}

// freeAddress is a loopback address that nobody listens at.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

// tailLog keeps the end of a server's stderr for error messages, bounded. Safe from any goroutine.
type tailLog struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 8 << 10

func (l *tailLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if extra := len(l.text) - tailSize; extra > 0 {
		l.text = append(l.text[:0], l.text[extra:]...)
	}
	return len(p), nil
}

func (l *tailLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.text))
}

// hasLine tells whether one whole line has all the words.
func (l *tailLog) hasLine(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
lines:
	for line := range bytes.Lines(l.text) {
		for _, word := range words {
			if !bytes.Contains(line, []byte(word)) {
				continue lines
			}
		}
		if line[len(line)-1] == '\n' {
			return true
		}
	}
	return false
}

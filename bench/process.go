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
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startLimit = 10 * time.Second
	stopLimit  = 10 * time.Second

	unpinned = -1 // lets a process run on any CPU
)

// startOn starts a command held to a CPU: its threads and children inherit the affinity of the
// thread that forks. It has a process group of its own: an interrupt typed at the terminal reaches
// bench alone, which then ends its servers in order, and what one leaves behind can be ended by the
// group.
func startOn(cpu int, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if cpu == unpinned {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all, one unix.CPUSet
	one.Set(cpu)
	if err := errors.Join(
		unix.SchedGetaffinity(0, &all), unix.SchedSetaffinity(0, &one),
	); err != nil {
		return fmt.Errorf("CPU %d: %w", cpu, err)
	}
	defer unix.SchedSetaffinity(0, &all)
	return cmd.Start()
}

// run runs a command to its end. An interrupt is sent after that time; 0: none.
func run(ctx context.Context, cpu int, interrupt time.Duration, argv ...string) (
	out []byte, used cpuUsage, err error,
) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := startOn(cpu, cmd); err != nil {
		return nil, used, err
	}
	if interrupt > 0 {
		early := time.AfterFunc(interrupt, func() { cmd.Process.Signal(os.Interrupt) })
		defer early.Stop()
	}
	if err := cmd.Wait(); err != nil {
		return nil, used, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), cpuUsage{cmd.ProcessState.UserTime(), cmd.ProcessState.SystemTime()}, nil
}

// A command is how a server is started in the foreground, and how one knows that it serves.
type command struct {
	argv, environ []string
	dir           string // where it starts; its output is in the file log there
	cpu           int
	ask           func() error // nil when it serves
	ends          bool         // exits with 0 on SIGTERM
}

// A process is a started command.
type process struct {
	command
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited; err is set before
	err  error
}

// accepts asks for a connection.
func accepts(network, addr string) func() error {
	return func() error {
		conn, err := net.Dial(network, addr)
		if err == nil {
			conn.Close()
		}
		return err
	}
}

// start returns when the command serves. The caller stops it.
func start(ctx context.Context, c command) (*process, error) {
	p := &process{
		command: c, done: make(chan struct{}), cmd: exec.Command(c.argv[0], c.argv[1:]...),
	}
	log := must(os.Create(filepath.Join(c.dir, "log")))
	defer log.Close()
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr =
		append(os.Environ(), c.environ...), c.dir, log, log
	if err := startOn(c.cpu, p.cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	if err := p.waitReady(ctx); err != nil {
		p.kill()
		return nil, p.explain(err)
	}
	return p, nil
}

// waitReady asks every few milliseconds, since not every server says when it is ready.
func (p *process) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := p.ask()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-p.done:
			return fmt.Errorf("ended before it served: %v", p.err)
		case <-ctx.Done():
			return fmt.Errorf("does not serve: %w: %w", ctx.Err(), err)
		}
	}
}

// explain adds the command and the end of its output.
func (p *process) explain(err error) error {
	text, _ := os.ReadFile(filepath.Join(p.dir, "log"))
	text = bytes.TrimSpace(text[max(0, len(text)-8<<10):])
	return fmt.Errorf("%s: %w\n%s", p.argv[0], err, text)
}

// stop ends the process and reports one that did not end as it should.
func (p *process) stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopLimit):
		p.kill()
		return p.explain(fmt.Errorf("still running %v after SIGTERM", stopLimit))
	}
	switch {
	case p.kill() == nil:
		return p.explain(errors.New("left a process behind"))
	case p.ends && p.err != nil:
		return p.explain(fmt.Errorf("after SIGTERM: %w", p.err))
	}
	return nil
}

// kill ends the whole group at once. An error says that there was none.
func (p *process) kill() error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.done
	return err
}

// freeAddress is a loopback address where nothing listens.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

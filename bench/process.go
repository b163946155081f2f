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
	"syscall"
	"time"
)

const (
	startLimit = 10 * time.Second
	stopLimit  = 10 * time.Second

	unpinned = -1 // lets a process run on any CPU
)

// pinned is a command held to a CPU, with its threads and children. It has a process group of its
// own: an interrupt typed at the terminal reaches bench alone, which then ends its servers in order,
// and what one leaves behind can be ended by the group.
func pinned(ctx context.Context, cpu int, argv ...string) *exec.Cmd {
	if cpu != unpinned {
		argv = append([]string{"taskset", "-c", strconv.Itoa(cpu)}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// run runs a command to its end.
func run(ctx context.Context, cpu int, argv ...string) ([]byte, error) {
	cmd := pinned(ctx, cpu, argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, err
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
	p := &process{command: c, done: make(chan struct{}), cmd: pinned(context.Background(), c.cpu, c.argv...)}
	log := must(os.Create(filepath.Join(c.dir, "log")))
	defer log.Close()
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), c.environ...), c.dir, log, log
	if err := p.cmd.Start(); err != nil {
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

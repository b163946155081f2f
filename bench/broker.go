package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// broker is a redis-server that forgets nothing that it has acknowledged, in a folder of its own, beside the servers on
// their CPU.
type broker struct {
	env  *environment
	dir  string
	addr string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	log  *tailLog
}

// startBroker returns when it answers. The caller stops it.
func startBroker(ctx context.Context, env *environment) (*broker, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(env.dir, "redis-")
	if err != nil {
		return nil, err
	}
	b := &broker{env: env, dir: dir, addr: addr, log: &tailLog{}}
	return b, b.start(ctx)
}

func (b *broker) url() string { return "redis://" + b.addr }

// start begins a process at the same address, with what the last one left in the folder.
func (b *broker) start(ctx context.Context) error {
	host, port, err := net.SplitHostPort(b.addr)
	if err != nil {
		return err
	}
	cmd := exec.Command(b.env.self, "pin", fmt.Sprint(b.env.serverCPU), b.env.redis, "--bind", host, "--port", port, "--dir", b.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
	cmd.Stdout, cmd.Stderr = b.log, b.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait() // its error says how it was ended, or is in the log
		close(done)
	}()
	b.cmd, b.done = cmd, done
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := b.ask("PING", "+PONG")
		if err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
			continue
		case <-done:
		case <-ctx.Done():
		}
		return fmt.Errorf("redis-server at %s: %w\n%s", b.addr, errors.Join(err, b.kill()), b.log)
	}
}

// ask is for a command in one line, answered with one. While the broker reads its file again it refuses even PING.
func (b *broker) ask(command, want string) error {
	conn, err := net.DialTimeout("tcp", b.addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if line = strings.TrimSpace(line); line != want {
		return fmt.Errorf("%s is answered with %q", command, line)
	}
	return nil
}

// kill gives it no time for anything. Killing what has ended does nothing.
func (b *broker) kill() error {
	if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-b.done
	return nil
}

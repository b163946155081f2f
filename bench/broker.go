package main

import (
	"bufio"
	"context"
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
	cmd  *exec.Cmd // nil while it is killed
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
	b.cmd = cmd
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := b.ping()
		if err == nil {
			return nil
		}
		if sleep(ctx, 5*time.Millisecond) != nil {
			b.kill()
			return fmt.Errorf("redis-server at %s: %w\n%s", b.addr, err, b.log)
		}
	}
}

// ping tells whether it answers: while it reads its file again it refuses to.
func (b *broker) ping() error {
	conn, err := net.DialTimeout("tcp", b.addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	if line = strings.TrimSpace(line); line != "+PONG" {
		return fmt.Errorf("PING is answered with %q", line)
	}
	return nil
}

// kill gives it no time for anything. Killing what is killed does nothing.
func (b *broker) kill() error {
	if b.cmd == nil {
		return nil
	}
	err := b.cmd.Process.Kill()
	b.cmd.Wait() // its error says that it was killed
	b.cmd = nil
	return err
}

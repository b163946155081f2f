package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// broker is a redis-server of the test's own.
type broker struct {
	t    testing.TB
	dir  string
	port int
	args []string
	cmd  *exec.Cmd
}

func startBroker(t testing.TB, args ...string) *broker {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("LWANGO_CI") != "" {
			t.Fatal("redis-server is not installed: Debian's package redis-server")
		}
		t.Skip("redis-server is not installed: Debian's package redis-server")
	}
	b := &broker{t: t, dir: t.TempDir(), args: args}
	for try := 0; ; try++ {
		// Below the ports that the kernel gives to clients: one of them could take it while the broker is down.
		b.port = 20000 + rand.IntN(10000)
		if b.start() {
			break
		}
		if try == 20 {
			t.Fatal("redis-server does not start")
		}
	}
	t.Cleanup(b.kill)
	return b
}

// start reports whether the server answers. It does not, if the port was taken.
func (b *broker) start() bool {
	b.t.Helper()
	args := []string{"--port", fmt.Sprint(b.port), "--bind", "127.0.0.1", "--dir", b.dir, "--save", "",
		"--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"}
	b.cmd = exec.Command("redis-server", append(args, b.args...)...)
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	ended := make(chan struct{})
	cmd := b.cmd
	go func() { _ = cmd.Wait(); close(ended) }()
	c := b.client()
	defer c.Close()
	for {
		if pid, err := c.InfoMap(context.Background(), "server").Result(); err == nil {
			return pid["Server"]["process_id"] == fmt.Sprint(cmd.Process.Pid)
		}
		select {
		case <-ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (b *broker) restart() {
	b.t.Helper()
	if !b.start() {
		b.t.Fatal("redis-server does not start again")
	}
}

// kill is kill -9.
func (b *broker) kill() {
	if b.cmd != nil {
		b.signal(syscall.SIGKILL)
		for syscall.Kill(b.cmd.Process.Pid, 0) == nil { // start's goroutine waits for it
			time.Sleep(time.Millisecond)
		}
		b.cmd = nil
	}
}

func (b *broker) signal(sig syscall.Signal) {
	if err := syscall.Kill(b.cmd.Process.Pid, sig); err != nil {
		b.t.Error(err)
	}
}

func (b *broker) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", b.port) }

func (b *broker) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", b.port), MaxRetries: -1, DialerRetries: 1})
}

// do runs a command.
func (b *broker) do(command string) {
	b.t.Helper()
	c := b.client()
	defer c.Close()
	var args []any
	for _, a := range strings.Fields(command) {
		args = append(args, a)
	}
	if err := c.Do(context.Background(), args...).Err(); err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
}

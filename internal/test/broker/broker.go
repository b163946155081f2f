// Package broker runs a real redis-server for a test.
package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/wait"
)

// Broker is a redis-server of the test's own, in a temporary folder. It writes everything to the
// disk at once (appendfsync always) unless its arguments say otherwise.
type Broker struct {
	Port int
	Args []string // beside its own, from the next start on

	t        testing.TB
	dir      string
	sentinel bool
	cluster  bool
	bus      int // the port for the other nodes of a cluster
	cmd      *exec.Cmd
}

// Start starts a broker on a free port, until the test ends. Without redis-server the test is left
// out (ci.Lacks).
func Start(t testing.TB, args ...string) *Broker {
	t.Helper()
	return start(&Broker{Args: args, t: t})
}

// silence ends the lines that the client has on stderr for each attempt to connect until the server
// listens.
var silence = sync.OnceFunc(logging.Disable)

// start starts b on a free port.
func start(b *Broker) *Broker {
	t := b.t
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		ci.Lacks(t, "redis-server: Debian's package redis-server")
	}
	silence()
	b.dir = t.TempDir()
	for try := 0; ; try++ {
		// Below the ports that the kernel gives to clients: one of them could take it while the
		// broker is down.
		b.Port, b.bus = port(), port()
		if b.start() {
			break
		}
		if try == 20 {
			t.Fatal("redis-server does not start")
		}
	}
	t.Cleanup(b.Kill)
	return b
}

// port returns one that is probably free.
func port() int { return 20000 + rand.IntN(10000) }

// start reports whether the server answers. It does not, if a port was taken.
func (b *Broker) start() bool {
	b.t.Helper()
	args := []string{"--port", fmt.Sprint(b.Port), "--bind", "127.0.0.1", "--dir", b.dir,
		"--save", "", "--repl-diskless-sync-delay", "0",
		"--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"}
	if b.cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(b.bus))
	}
	if b.sentinel { // it wants a file, which it writes anew
		args = []string{filepath.Join(b.dir, "sentinel.conf"), "--sentinel"}
		text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n%s\n", b.Port, b.dir,
			strings.Join(b.Args, "\n"))
		if err := os.WriteFile(args[0], []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
		b.cmd = exec.Command("redis-server", args...)
	} else {
		b.cmd = exec.Command("redis-server", append(args, b.Args...)...)
	}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
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

// Restart starts a broker again that was killed, on its port and with what it has on the disk.
func (b *Broker) Restart() {
	b.t.Helper()
	if !b.start() {
		b.t.Fatal("redis-server does not start again")
	}
}

// Replicate makes b a replica of primary, as a fail-over does with a former primary. It returns
// when b has all that primary has. REPLICAOF NO ONE makes b a primary.
func (b *Broker) Replicate(primary *Broker) {
	b.t.Helper()
	b.Do(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", primary.Port))
	b.awaitReplicated(primary)
}

// awaitReplicated waits until b has all that primary has.
func (b *Broker) awaitReplicated(primary *Broker) {
	b.t.Helper()
	wait.Until(b.t, "the replica is in step", func() bool {
		return b.field("master_link_status") == "up" &&
			b.field("slave_repl_offset") == primary.field("master_repl_offset")
	})
}

// field returns a field of what the broker says of replication.
func (b *Broker) field(name string) string {
	b.t.Helper()
	_, rest, _ := strings.Cut(b.Do("INFO replication").(string), "\r\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// Kill is kill -9. It returns when the broker is gone, and with it the process that may be writing
// its data anew, which would go on in the folder.
func (b *Broker) Kill() {
	if b.cmd == nil {
		return
	}
	pid := b.cmd.Process.Pid
	if err := syscall.Kill(-pid, syscall.SIGKILL); err != nil {
		b.t.Error(err)
	}
	for syscall.Kill(pid, 0) == nil { // start's goroutine waits for it
		time.Sleep(time.Millisecond)
	}
	wait.GroupGone(b.t, pid)
	b.cmd = nil
}

// Signal sends the broker a signal. After SIGSTOP it returns when the broker stands still.
func (b *Broker) Signal(sig syscall.Signal) {
	if err := syscall.Kill(b.cmd.Process.Pid, sig); err != nil {
		b.t.Error(err)
	} else if sig == syscall.SIGSTOP {
		wait.Stopped(b.t, b.cmd.Process.Pid)
	}
}

// Addr is where the broker listens.
func (b *Broker) Addr() string { return fmt.Sprintf("127.0.0.1:%d", b.Port) }

// URL is what a client connects to.
func (b *Broker) URL() string { return "redis://" + b.Addr() }

func (b *Broker) client() *goredis.Client {
	return goredis.NewClient(&goredis.Options{Addr: b.Addr(),
		MaxRetries: -1, DialerRetries: 1})
}

// Do runs a command, of words and perhaps one more argument, and returns the answer: a string, an
// int64, or a slice of such.
func (b *Broker) Do(command string, last ...any) any {
	b.t.Helper()
	c := b.client()
	defer c.Close()
	return b.do(c, command, last...)
}

// KeepConn opens a connection that stays until the test ends, whichever others the broker refuses
// meanwhile, and returns a function that runs commands on it.
func (b *Broker) KeepConn() (do func(command string) (answer any)) {
	b.t.Helper()
	c := b.client()
	b.t.Cleanup(func() { c.Close() })
	conn := c.Conn()
	b.do(conn, "PING")
	return func(command string) any {
		b.t.Helper()
		return b.do(conn, command)
	}
}

func (b *Broker) do(c interface {
	Do(ctx context.Context, args ...any) *goredis.Cmd
}, command string, last ...any) any {
	b.t.Helper()
	var args []any
	for _, a := range strings.Fields(command) {
		args = append(args, a)
	}
	answer, err := c.Do(context.Background(), append(args, last...)...).Result()
	if err != nil {
		b.t.Fatalf("%s: %v", command, err)
	}
	return answer
}

package main

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

// natsPort, in the environment, has the test's binary be a server of NATS, with its files in the
// current folder.
const natsPort = "LWANGO_NATS_PORT"

// serveNATS is nats-server.
func serveNATS(port string) {
	number, _ := strconv.Atoi(port)
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: number, NoSigs: true,
		JetStream: true, StoreDir: "."})
	if err == nil {
		n.Start()
	}
	if err != nil || !n.ReadyForConnections(10*time.Second) {
		fmt.Println("not ready:", err)
		os.Exit(1)
	}
	fmt.Println("ready")
	n.WaitForShutdown()
}

// natsBroker is a server in a process of its own.
type natsBroker struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
}

func startNATS(t *testing.T) shared {
	b := &natsBroker{t: t, dir: t.TempDir()}
	for try := 0; ; try++ { // on a port that is probably free
		if b.port = 20000 + rand.IntN(10000); b.start() {
			break
		}
		if try == 20 {
			t.Fatal("nats-server does not start")
		}
	}
	t.Cleanup(b.Kill)
	return b
}

func (b *natsBroker) start() bool {
	b.cmd = program.Command(b.t)
	b.cmd.Dir = b.dir
	b.cmd.Env = append(b.cmd.Env, fmt.Sprint(natsPort, "=", b.port))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := must.Get(b.cmd.StdoutPipe())(b.t)
	must.Do(b.t, b.cmd.Start())
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line == "ready\n" {
		return true
	}
	b.Kill()
	return false
}

func (b *natsBroker) URL() string { return fmt.Sprint("nats://127.0.0.1:", b.port) }

// Kill is kill -9. It returns when the server is gone.
func (b *natsBroker) Kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

func (b *natsBroker) Restart() {
	if !b.start() {
		b.t.Fatal("nats-server does not start again")
	}
}

// A URL that is wrong for its broker is refused, before anything listens.
func TestBrokerOfURL(t *testing.T) {
	for url, why := range map[string]string{
		"nats://127.0.0.1:x":        "nats",
		"nats://127.0.0.1?foo=x":    "foo",
		"redis://127.0.0.1?foo=bar": "foo",
		"amqp://127.0.0.1":          "redis://",
	} {
		config := program.Configure(t, t.TempDir(), fmt.Sprintf("[pubsub]\nurl = %q\n", url))
		program.Fails(t, []string{"-t", "-c", config}, 2, "lwango.conf:2", why)
	}
}

package nats_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

// asBroker, in the environment, has the test's binary be a server, with these settings.
const asBroker = "LWANGO_NATS"

func TestMain(m *testing.M) {
	if text := os.Getenv(asBroker); text != "" {
		fmt.Fprintln(os.Stderr, serve(text))
		os.Exit(1)
	}
	rooms.Main(func(hub *pubsub.Hub, url string, log *slog.Logger) (rooms.Engine, error) {
		return nats.Start(hub, url, log)
	})
	program.Main(m, keeper)
}

// settings are those of a server.
type settings struct {
	Name, Dir      string
	Port           int
	ClusterPort    int
	Routes         []string
	Cert, Key, CAs string // of TLS
	User, Password string
	MaxPayload     int32
}

// serve is nats-server, from its module, in a process that can be killed.
func serve(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	o := &server.Options{ServerName: s.Name, Host: "127.0.0.1", Port: s.Port, NoSigs: true,
		JetStream: true, StoreDir: s.Dir, Username: s.User, Password: s.Password,
		MaxPayload: s.MaxPayload}
	if s.ClusterPort > 0 {
		o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: s.ClusterPort}
		for _, r := range s.Routes {
			u, err := url.Parse(r)
			if err != nil {
				return err
			}
			o.Routes = append(o.Routes, u)
		}
	}
	if s.Cert != "" {
		c, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: s.Cert, KeyFile: s.Key,
			CaFile: s.CAs, Verify: true})
		if err != nil {
			return err
		}
		o.TLSConfig, o.TLSVerify = c, true
	}
	n, err := server.NewServer(o)
	if err != nil {
		return err
	}
	n.Start()
	if !n.ReadyForConnections(10 * time.Second) {
		return errors.New("not ready")
	}
	fmt.Println("ready")
	n.WaitForShutdown()
	return nil
}

// broker is a server in a process of its own.
type broker struct {
	settings
	t   testing.TB
	cmd *exec.Cmd
}

// port returns one that is probably free, and that the kernel gives to no client.
func port() int { return 20000 + rand.IntN(10000) }

func startBroker(t testing.TB, change ...func(*settings)) *broker {
	t.Helper()
	b := &broker{t: t, settings: settings{Dir: t.TempDir()}}
	for _, f := range change {
		f(&b.settings)
	}
	for try := 0; ; try++ {
		b.Port = port()
		if b.start() {
			break
		}
		if try == 20 {
			t.Fatal("nats-server does not start")
		}
	}
	t.Cleanup(b.kill)
	return b
}

func (b *broker) start() bool {
	b.t.Helper()
	b.cmd = exec.Command(os.Args[0], "-test.run=none")
	b.cmd.Env = append(os.Environ(), asBroker+"="+string(must.Get(json.Marshal(b.settings))(b.t)))
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout := must.Get(b.cmd.StdoutPipe())(b.t)
	must.Do(b.t, b.cmd.Start())
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if line == "ready\n" {
		return true
	}
	_ = b.cmd.Wait()
	b.cmd = nil
	return false
}

// kill is kill -9. It returns when the server is gone.
func (b *broker) kill() {
	if b.cmd != nil {
		_ = b.cmd.Process.Kill()
		_ = b.cmd.Wait()
		b.cmd = nil
	}
}

func (b *broker) restart() {
	b.t.Helper()
	if !b.start() {
		b.t.Fatal("nats-server does not start again")
	}
}

// signal sends the server a signal. After SIGSTOP it returns when the server stands still.
func (b *broker) signal(sig syscall.Signal) {
	b.t.Helper()
	must.Do(b.t, b.cmd.Process.Signal(sig))
	if sig == syscall.SIGSTOP {
		wait.Stopped(b.t, b.cmd.Process.Pid)
	}
}

func (b *broker) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.Port) }
func (b *broker) url() string  { return "nats://" + b.addr() }

// client connects another client.
func (b *broker) client() *natsgo.Conn {
	b.t.Helper()
	c := must.Get(natsgo.Connect(b.url(), natsgo.Timeout(rooms.Limit)))(b.t)
	b.t.Cleanup(c.Close)
	return c
}

// ask asks the API of JetStream.
func ask(t testing.TB, c *natsgo.Conn, what string, question, answer any) {
	t.Helper()
	data := must.Get(json.Marshal(question))(t)
	m := must.Get(c.Request("$JS.API."+what, data, rooms.Limit))(t)
	must.Do(t, json.Unmarshal(m.Data, answer))
}

// startCluster starts three servers, of which each knows the others.
func startCluster(t testing.TB) (all []*broker) {
	t.Helper()
	ports := []int{port(), port(), port()}
	var routes []string
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	for i, p := range ports {
		all = append(all, startBroker(t, func(s *settings) {
			s.Name, s.ClusterPort, s.Routes = fmt.Sprint("server", i), p, routes
		}))
	}
	c := all[0].client()
	wait.Until(t, "the cluster has a leader", func() bool {
		m, err := c.Request("$JS.API.STREAM.NAMES", nil, time.Second)
		return err == nil && !strings.Contains(string(m.Data), `"error"`)
	})
	return all
}

// urlOf names all servers of a cluster.
func urlOf(all []*broker, more string) string {
	text := all[0].url() + "?" + more
	for _, b := range all[1:] {
		text += "&addr=" + b.addr()
	}
	return text
}

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"
)

// A peer is one server that takes part.
type peer struct {
	Name, Program, Handoff string
	Unqueued, Nopush, Ends bool
}

func (p peer) name() string   { return p.Name }
func (p peer) isLwango() bool { return p.Program == "lwango" }

// The peer that the others are put in relation to, lwango as it comes, and lwango with the other
// handoff.
const (
	baseline = "lwango-direct"
	other    = "lwango-channel"
)

// lwangoCommand is the program of lwango that answers most works, a folder of its repository.
const lwangoCommand = "cmd/lwango"

// appPrefix is the route of the scripts, as which PHP finds them too.
const appPrefix = "/app"

// conf has the configurations as templates, scripts what PHP runs.
//
//go:embed conf scripts
var data embed.FS

// A server is what a peer is told, for the templates of its configuration, and its process.
type server struct {
	Peer peer
	work
	Root, Dir    string // of all files, and of its own
	Addr, Beside string
	Backend      string // the address of what it passes requests on to
	Broker       string // the address of Redis
	MaxFiles     uint64
	Folders      []string // nginx's for temporary files
	env          *environment

	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited; err is set before
	err  error
	ends bool  // exits with 0 on SIGTERM
	pids []int // the process and its children (nginx's workers)
}

// Fcgi tells whether requests are passed on by FastCGI.
func (s *server) Fcgi() bool { return s.Upstream.Kind == "php" || s.Upstream.Kind == "responder" }

func (env *environment) newServer(w work, addr string) *server {
	s := &server{work: w, env: env, Root: env.dir, MaxFiles: env.maxFiles, Addr: addr}
	s.Dir = must(os.MkdirTemp(env.dir, "server-"))
	check(os.Chmod(s.Dir, 0o755)) // nginx's workers give up root and must still reach their folders
	return s
}

// configure writes a configuration to the server's folder and returns the file.
func (s *server) configure(name string) string {
	f := must(os.Create(filepath.Join(s.Dir, name)))
	defer f.Close()
	check(template.Must(template.ParseFS(data, "conf/"+name)).Execute(f, s))
	return f.Name()
}

// bench is a server of this binary (serve.go).
func (s *server) bench(name string) []string {
	return []string{s.env.self, "serve", name, s.Addr, filepath.Join(s.Root, "files"), s.Beside, s.Backend}
}

// startServer returns when the server has answered the work's request with the right bytes. The
// caller stops it.
func startServer(ctx context.Context, env *environment, p peer, w work, up *server, broker string) *server {
	s := env.newServer(w, freeAddress())
	s.Peer, s.Broker, s.ends = p, broker, p.Ends
	if up != nil {
		s.Backend = up.Addr
	}
	if w.Probe.Path != "" {
		s.Beside = freeAddress()
	}
	var argv []string
	switch {
	case p.Program == "lwango" && w.Kind == "echo" && w.Path == "": // a sample with two flags
		argv = []string{env.lwango[w.Program], "-l", s.Addr, "-handoff", p.Handoff}
	case p.Program == "lwango":
		argv = []string{env.lwango[w.Program], "-c", s.configure("lwango.conf")}
		if s.Beside != "" {
			argv = append(argv, "-beside", s.Beside, "-backend", s.Backend)
		}
	case p.Program == "nginx":
		build := output(ctx, "", env.programs["nginx"], "-V")
		for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			if !strings.Contains(build, "--without-http_"+name+"_module") {
				s.Folders = append(s.Folders, name)
			}
		}
		argv = []string{env.programs["nginx"], "-p", s.Dir, "-e", filepath.Join(s.Dir, "error.log"), "-c", s.configure("nginx.conf")}
	default:
		argv = append([]string{"env", fmt.Sprint("GOMAXPROCS=", w.Threads)}, s.bench(p.Name)...)
	}
	cpu := env.serverCPU
	if w.Threads > 1 {
		cpu = unpinned
	}
	check(s.start(ctx, cpu, argv...))
	_, err := attempt(verifyWork, s)
	if err == nil { // only now: nginx's master listens before its workers start
		s.pids, err = family(s.cmd.Process.Pid)
	}
	if err != nil {
		s.stop()
		check(s.explain(err))
	}
	return s
}

// startUpstream starts what the work passes requests on to; nil: nothing. All servers of a work
// share it, round after round. The caller stops it.
func startUpstream(ctx context.Context, env *environment, w work) *server {
	if w.Upstream.Kind == "" {
		return nil
	}
	s := env.newServer(w, freeAddress())
	if s.Fcgi() {
		s.Addr = filepath.Join(s.Dir, "s")
	}
	s.Backend = s.Addr
	cpu, argv := env.clientFor(w), s.bench(w.Upstream.Kind) // with the client
	if w.Upstream.Kind == "php" {                           // without the machine's php.ini (-n): all that is set is here
		s.ends, cpu = true, unpinned
		argv = []string{env.programs["php"], "-n", "-d", "zend_extension=opcache", "-d", "opcache.enable=1", "-F", "-O",
			"-y", s.configure("php-fpm.conf")}
		if os.Getuid() == 0 {
			argv = append(argv, "-R")
		}
	}
	check(s.start(ctx, cpu, argv...))
	return s
}

// startBroker starts a redis-server that forgets nothing that it has acknowledged, in a folder that
// it may have used before, on the servers' CPU.
func (s *server) startBroker(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.Addr)
	check(err)
	return s.start(ctx, s.env.serverCPU, s.env.programs["redis"], "--bind", host, "--port", port, "--dir", s.Dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "")
}

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

// start returns when the command accepts connections at the server's address, which it asks for
// every few milliseconds: not every server says when it is ready. The command's output is in the
// file log of the server's folder. The caller stops it.
func (s *server) start(ctx context.Context, cpu int, argv ...string) error {
	log := must(os.Create(filepath.Join(s.Dir, "log")))
	defer log.Close()
	s.cmd, s.done = pinned(context.Background(), cpu, argv...), make(chan struct{})
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.Dir, log, log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	network := "tcp"
	if filepath.IsAbs(s.Addr) {
		network = "unix"
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := net.Dial(network, s.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(5 * time.Millisecond):
			continue
		case <-s.done:
			err = fmt.Errorf("ended before it served: %v", s.err)
		case <-ctx.Done():
			err = fmt.Errorf("does not serve: %w: %w", ctx.Err(), err)
		}
		s.kill()
		return s.explain(err)
	}
}

// explain adds the command and the end of its output.
func (s *server) explain(err error) error {
	text, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
	text = bytes.TrimSpace(text[max(0, len(text)-8<<10):])
	return fmt.Errorf("%s: %w\n%s", s.cmd, err, text)
}

// stop ends the process and reports one that did not end as it should.
func (s *server) stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(stopLimit):
		s.kill()
		return s.explain(fmt.Errorf("still running %v after SIGTERM", stopLimit))
	}
	switch {
	case s.kill() == nil:
		return s.explain(errors.New("left a process behind"))
	case s.ends && s.err != nil:
		return s.explain(fmt.Errorf("after SIGTERM: %w", s.err))
	}
	return nil
}

// kill ends the whole group at once. An error says that there was none.
func (s *server) kill() error {
	err := syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
	<-s.done
	return err
}

// freeAddress is a loopback address where nothing listens.
func freeAddress() string {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	defer ln.Close()
	return ln.Addr().String()
}

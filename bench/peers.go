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

// A program is how servers are found and started.
type program struct {
	Pattern, Packages string   // of an installed program's file, and Debian's; else it is built
	Version           []string // arguments that make it say its version
	Has               string   // what must be in that
	Optional          bool     // a measurement more, where it is installed
	Argv              []string // templates, of which those that come out empty are left out
	Ends              bool     // with 0 on SIGTERM
}

// A peer is one server that takes part, or an application that servers pass requests on to.
type peer struct {
	Name, Program, Handoff string
	Unqueued               bool
	Unruled                bool // lwango: without the work's rules or routes
	Unlogged               bool // lwango: without the work's access log
	Uncounted              bool // lwango: without the work's module status
	Unhung                 bool // lwango: without the upstream that says nothing
	Uncached               bool // it keeps nothing of what the upstream answers
	Unfilled               bool // it keeps nothing yet when the clock starts
	Nopush, Cache, Aio     bool // nginx: tcp_nopush, open_file_cache, aio threads
	Socket                 bool // it listens on a UNIX socket
	Anywhere               bool // on any CPU
	HTTP1                  bool // it is asked by HTTP/1.1, with a connection for each stream
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

// conf has the configurations as templates, scripts what PHP runs.
//
//go:embed conf scripts
var data embed.FS

// A server is what a peer is told, for the templates of its command and its configuration, and its
// process.
type server struct {
	work
	Peer         peer
	File         string // the program
	Root, Dir    string // of all files, and of its own
	Addr, Beside string
	Backend      string // the address of what it passes requests on to
	MaxFiles     uint64

	env     *environment
	program program

	cpu, clientCPU int // or unpinned
	cmd            *exec.Cmd
	done           chan struct{} // closed when it has exited; err is set before
	err            error
}

// newServer prepares a server, of which the caller starts any number one after the other.
func (env *environment) newServer(w work, p peer, backend string) *server {
	name := p.Program
	if p.isLwango() {
		name = w.Program
	}
	s := &server{
		work: w, Peer: p, File: env.files[name], Root: env.dir, MaxFiles: env.maxFiles,
		Addr: freeAddress(), Backend: backend, env: env, program: programs[name],
		cpu: env.serverCPU, clientCPU: env.clientCPU,
	}
	s.Dir = must(os.MkdirTemp(env.dir, "server-"))
	check(os.Chmod(s.Dir, 0o755)) // nginx's workers give up root and must still reach it
	if p.Socket {
		s.Addr = filepath.Join(s.Dir, "s")
	}
	if backend == "" && w.Upstream.Kind != "" { // the application itself: with the client
		s.cpu = s.clientCPU
	} else if w.Probe.Plain {
		for s.Beside == "" || s.Beside == s.Addr {
			s.Beside = freeAddress()
		}
	}
	if w.Threads > 1 {
		s.cpu, s.clientCPU = unpinned, unpinned
	} else if p.Anywhere {
		s.cpu = unpinned
	}
	return s
}

// Fcgi tells whether requests are passed on by FastCGI.
func (s *server) Fcgi() bool { return s.Upstream.Kind == "php" || s.Upstream.Kind == "responder" }

// Web tells whether requests are passed on by HTTP/1.1, by the server and no handler of a program.
func (s *server) Web() bool {
	return s.Program == lwangoCommand && s.Upstream.Kind != "" && !s.Fcgi() && !s.GRPC() && !s.TCP
}

// Kept is for how long the server keeps what the upstream answers; "": not at all.
func (s *server) Kept() string {
	if s.Peer.Uncached {
		return ""
	}
	return s.Cached
}

// KeptSeconds is Kept in seconds.
func (s *server) KeptSeconds() (float64, error) {
	d, err := time.ParseDuration(s.Kept())
	return d.Seconds(), err
}

// Mute is the address of an upstream that says nothing, though the kernel makes connections to it;
// "": the server has none.
func (s *server) Mute() string {
	if !s.Hung || s.Peer.Unhung {
		return ""
	}
	if s.env.mute == nil {
		s.env.mute = must(net.Listen("tcp", "127.0.0.1:0"))
	}
	return s.env.mute.Addr().String()
}

// GRPC tells whether calls are passed on by HTTP/2.
func (s *server) GRPC() bool { return s.Upstream.Kind == "grpc" }

// Port is that of the address.
func (s *server) Port() (string, error) {
	_, port, err := net.SplitHostPort(s.Addr)
	return port, err
}

// BackendPort is that of Backend.
func (s *server) BackendPort() (string, error) {
	_, port, err := net.SplitHostPort(s.Backend)
	return port, err
}

// Folders are nginx's for temporary files: it refuses to be told one that its build does not have.
func (s *server) Folders() (folders []string) {
	build := s.env.output(s.File, "-V")
	for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		if !strings.Contains(build, "--without-http_"+name+"_module") {
			folders = append(folders, name)
		}
	}
	return folders
}

// Module is the file of a module of nginx that is not built in, where Debian's packages put it.
func (s *server) Module(name string) string { return filepath.Join("/usr/lib/nginx/modules", name) }

// Configure writes a configuration to the server's folder and returns the file.
func (s *server) Configure(name string) string {
	f := must(os.Create(filepath.Join(s.Dir, name)))
	defer f.Close()
	check(template.Must(template.ParseFS(data, "conf/"+name)).Execute(f, s))
	return f.Name()
}

// probe is what is asked of the server beside its load. The connections are enough for the probe
// never to wait for one unless the server is late.
func (s *server) probe(j job) job {
	j.Path, j.Rate, j.Conns = s.Probe.Path, s.Probe.Rate, 8
	if j.Rooms > 0 { // a room that is not the others'
		j.Rooms, j.Talkers, j.House, j.Nap = 1, 1, "quiet", 0
	}
	if s.Probe.Plain {
		j.Addr, j.Secure = s.Beside, false
	}
	return j
}

const (
	startLimit = time.Minute
	stopLimit  = time.Minute
	childLimit = 5 * time.Second // for a child that ends because its parent has, as h2o's does

	unpinned = -1 // lets a process run on any CPU
)

// pinned is a command held to a CPU, with its threads and children. It has a process group of its
// own: an interrupt typed at the terminal reaches bench alone, which then ends its servers in
// order, and what one leaves behind can be ended by the group.
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
func (s *server) start() error {
	var argv []string
	for _, text := range s.program.Argv {
		var arg strings.Builder
		check(template.Must(template.New("").Parse(text)).Execute(&arg, s))
		if arg.Len() > 0 {
			argv = append(argv, arg.String())
		}
	}
	log := must(os.Create(filepath.Join(s.Dir, "log")))
	defer log.Close()
	s.cmd, s.done = pinned(context.Background(), s.cpu, argv...), make(chan struct{})
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
	for end := time.Now().Add(startLimit); ; time.Sleep(5 * time.Millisecond) {
		conn, err := net.Dial(network, s.Addr)
		if err == nil {
			check(conn.Close())
			if !s.Profile() {
				return nil
			}
			if _, err = os.Stat(s.debugSocket()); err == nil {
				return nil
			}
		}
		select {
		case <-s.done:
			err = fmt.Errorf("ended before it served: %v", s.err)
		default:
			if time.Now().Before(end) && s.env.ctx.Err() == nil {
				continue
			}
		}
		s.kill()
		return s.explain(fmt.Errorf("does not serve: %w", err))
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
	group := s.cmd.Process.Pid
	for end := time.Now().Add(childLimit); running(group) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	left := running(group)
	s.kill()
	switch {
	case left:
		return s.explain(errors.New("left a process behind"))
	case s.program.Ends && s.err != nil:
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

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
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
	*process
	pids []int // the process and its children (nginx's workers)
}

// Fcgi tells whether requests are passed on by FastCGI.
func (s *server) Fcgi() bool { return s.Upstream.Kind == "php" || s.Upstream.Kind == "responder" }

func (env *environment) newServer(w work) *server {
	s := &server{work: w, env: env, Root: env.dir, MaxFiles: env.maxFiles, Dir: must(os.MkdirTemp(env.dir, "server-"))}
	check(os.Chmod(s.Dir, 0o755)) // nginx's workers give up root and must still reach their folders
	return s
}

// configure writes a configuration to a folder and returns the file.
func configure(name, dir string, options any) string {
	f := must(os.Create(filepath.Join(dir, name)))
	defer f.Close()
	check(template.Must(template.ParseFS(data, "conf/"+name)).Execute(f, options))
	return f.Name()
}

// startServer returns when the server has answered the work's request with the right bytes. The
// caller stops it.
func startServer(ctx context.Context, env *environment, p peer, w work, up *server, broker string) *server {
	s := env.newServer(w)
	s.Peer, s.Addr, s.Broker = p, must(freeAddress()), broker
	if up != nil {
		s.Backend = up.Addr
	}
	if w.Probe.Path != "" {
		s.Beside = must(freeAddress())
	}
	c := command{dir: s.Dir, ask: accepts("tcp", s.Addr), ends: p.Ends, cpu: env.serverCPU,
		environ: []string{fmt.Sprint("GOMAXPROCS=", w.Threads)}}
	if w.Threads > 1 {
		c.cpu = unpinned
	}
	switch {
	case p.Program == "lwango" && w.Kind == "echo" && w.Path == "": // a sample with two flags
		c.argv = []string{env.lwango[w.Program], "-l", s.Addr, "-handoff", p.Handoff}
	case p.Program == "lwango":
		c.environ = nil
		c.argv = []string{env.lwango[w.Program], "-c", configure("lwango.conf", s.Dir, s)}
		if s.Beside != "" {
			c.argv = append(c.argv, "-beside", s.Beside, "-backend", s.Backend)
		}
	case p.Program == "nginx":
		build := output(ctx, "", env.programs["nginx"], "-V")
		for _, name := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			if !strings.Contains(build, "--without-http_"+name+"_module") {
				s.Folders = append(s.Folders, name)
			}
		}
		c.argv = []string{env.programs["nginx"], "-p", s.Dir, "-e", filepath.Join(s.Dir, "error.log"), "-c", configure("nginx.conf", s.Dir, s)}
	default:
		c.argv = []string{env.self, "serve", p.Name, s.Addr, filepath.Join(s.Root, "files"), s.Beside, s.Backend}
	}
	s.process = must(start(ctx, c))
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
	s := env.newServer(w)
	s.Addr = filepath.Join(s.Dir, "s")
	s.Backend = s.Addr
	c := command{dir: s.Dir, ask: accepts("unix", s.Addr), cpu: env.clientFor(w)} // with the client
	switch w.Upstream.Kind {
	case "php": // without the machine's php.ini (-n): all that is set is here
		c.ends, c.cpu = true, unpinned
		c.argv = []string{env.programs["php"], "-n", "-d", "zend_extension=opcache", "-d", "opcache.enable=1", "-F", "-O",
			"-y", configure("php-fpm.conf", s.Dir, s)}
		if os.Getuid() == 0 {
			c.argv = append(c.argv, "-R")
		}
	case "responder":
		c.argv = []string{env.self, "serve", "responder", s.Addr, "", "", ""}
	default:
		s.Addr = must(freeAddress())
		c.ask = accepts("tcp", s.Addr)
		c.argv = []string{env.self, "serve", "nethttp", s.Addr, filepath.Join(s.Root, "files"), "", ""}
	}
	s.process = must(start(ctx, c))
	return s
}

// startBroker starts a redis-server that forgets nothing that it has acknowledged, in a folder that
// it may have used before, on the servers' CPU.
func startBroker(ctx context.Context, env *environment, dir, addr string) (*process, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return start(ctx, command{dir: dir, cpu: env.serverCPU,
		ask: func() error { return askBroker(addr, "PING", "+PONG") },
		argv: []string{env.programs["redis"], "--bind", host, "--port", port, "--dir", dir,
			"--appendonly", "yes", "--appendfsync", "always", "--save", ""}})
}

// askBroker is for a command in one line, answered with one. While the broker reads its file again
// it refuses even PING.
func askBroker(addr, command, want string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Second))
	var got string
	fmt.Fprintf(conn, "%s\r\n", command)
	if _, err := fmt.Fscan(conn, &got); err != nil || got != want {
		return errors.Join(err, fmt.Errorf("%s is answered with %q", command, got))
	}
	return nil
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// environment is what all measurements share: programs, a temporary folder, CPUs.
type environment struct {
	dir        string // removed by close
	self       string // this binary, for its subcommands
	wrk        string
	nginx      string // empty: not installed
	nginxBuild string // what `nginx -V` prints
	redis      string // empty: not installed
	php        string // PHP-FPM; empty: not installed
	phpVersion string
	lwango     map[string]string // a built command for each of its programs
	serverCPU  int
	clientCPU  int
	maxFiles   uint64 // the hard limit of descriptors per process
	machine    machine
}

// machine is the report's head.
type machine struct {
	date     time.Time
	kernel   string
	cpu      string
	cpus     int
	load     float64 // average over the minute before the run
	versions []string
}

// quietLoad is how much else may run: above it the report says so, since server and client want a CPU each.
const quietLoad = 0.5

// clientFor is the CPU of a client: of its own, unless the work lets all run anywhere.
func (e *environment) clientFor(w work) int {
	if w.threads > 1 {
		return unpinned
	}
	return e.clientCPU
}

func (e *environment) close() { os.RemoveAll(e.dir) }

// newEnvironment finds and builds the programs. It takes peers that are not installed out of the settings, unless
// LWANGO_CI is set: there everything is to be installed, and a measurement less would go unnoticed.
func newEnvironment(ctx context.Context, s *settings) (*environment, error) {
	env := &environment{serverCPU: s.serverCPU, clientCPU: s.clientCPU}
	var err error
	if env.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if env.wrk, err = exec.LookPath("wrk"); err != nil {
		return nil, errors.New("wrk is not installed (Debian: apt-get install wrk)")
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, err
	}
	env.maxFiles = limit.Max
	for i, w := range s.works {
		if most := int(limit.Max) - reservedFiles; w.conns > most {
			fmt.Fprintf(os.Stderr, "%s: %d connections instead of %d: the descriptor limit is %d\n", w.name, most, w.conns, limit.Max)
			s.works[i].conns = most
		}
	}
	if env.dir, err = os.MkdirTemp("", "lwango-bench-"); err != nil {
		return nil, err
	}
	if err := env.prepare(ctx, s); err != nil {
		env.close()
		return nil, err
	}
	env.machine = describeMachine(ctx, env, s)
	return env, nil
}

// reservedFiles is for everything that is not a client's connection.
const reservedFiles = 200

func (e *environment) prepare(ctx context.Context, s *settings) error {
	folder := filepath.Join(e.dir, "files")
	if err := errors.Join(os.Chmod(e.dir, 0o755), os.Mkdir(folder, 0o755)); err != nil {
		return err
	}
	if err := e.findUpstreams(ctx, s); err != nil {
		return err
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(folder, name), body, 0o644); err != nil {
			return err
		}
	}
	if slices.ContainsFunc(s.peers, peer.isNginx) {
		if e.nginx = findNginx(); e.nginx == "" {
			if os.Getenv("LWANGO_CI") == "1" {
				return errors.New("nginx is not installed (Debian: apt-get install nginx-light)")
			}
			fmt.Fprintln(os.Stderr, "nginx is not installed and left out (Debian: apt-get install nginx-light)")
			s.peers = slices.DeleteFunc(s.peers, peer.isNginx)
		} else {
			e.nginxBuild = output(ctx, "", e.nginx, "-V")
		}
	}
	if err := e.findRedis(s); err != nil {
		return err
	}
	return e.findLwango(ctx, s)
}

// findUpstreams takes works that need PHP out of the settings where there is none, as prepare does with nginx.
func (e *environment) findUpstreams(ctx context.Context, s *settings) (err error) {
	usesPHP := func(w work) bool { return w.upstream.kind == phpFPM }
	if slices.ContainsFunc(s.works, usesPHP) {
		if e.php = findPHP(); e.php == "" {
			if os.Getenv("LWANGO_CI") == "1" {
				return errNoPHP
			}
			fmt.Fprintln(os.Stderr, errNoPHP, "- works that need it are left out")
			s.works = slices.DeleteFunc(s.works, usesPHP)
		} else if e.phpVersion, err = phpVersion(ctx, e); err != nil {
			return err
		}
	}
	return writeScripts(filepath.Join(e.dir, "scripts"))
}

// findRedis takes the works out of the settings that need a broker, if there is none and the run is not CI's.
func (e *environment) findRedis(s *settings) (err error) {
	isBrokered := func(w work) bool { return w.kind == brokered }
	if !slices.ContainsFunc(s.works, isBrokered) {
		return nil
	}
	if e.redis, err = exec.LookPath("redis-server"); err == nil {
		return nil
	}
	const missing = "redis-server is not installed (Debian: apt-get install redis-server)"
	if os.Getenv("LWANGO_CI") == "1" {
		return errors.New(missing)
	}
	fmt.Fprintln(os.Stderr, missing+" and its works are left out")
	s.works = slices.DeleteFunc(s.works, isBrokered)
	return nil
}

// findLwango builds what the chosen works need of lwango. Each program is built in its own folder, because not all are of
// the same module.
func (e *environment) findLwango(ctx context.Context, s *settings) (err error) {
	e.lwango = map[string]string{}
	if s.lwango != "" {
		if e.lwango[command], err = filepath.Abs(s.lwango); err != nil {
			return err
		}
	}
	for _, w := range s.works {
		if e.lwango[w.program] != "" || !slices.ContainsFunc(s.peersOf(w), peer.isLwango) {
			continue
		}
		file := filepath.Join(e.dir, filepath.Base(w.program))
		build := exec.CommandContext(ctx, "go", "build", "-o", file, ".")
		build.Dir = filepath.Join(s.repo, w.program)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s: %w\n%s", build.Dir, err, out)
		}
		e.lwango[w.program] = file
	}
	return nil
}

func describeMachine(ctx context.Context, env *environment, s *settings) machine {
	m := machine{date: time.Now(), cpu: "unknown", cpus: runtime.NumCPU()}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err == nil {
		m.kernel = unix.ByteSliceToString(uts.Release[:])
	}
	if text, err := os.ReadFile(filepath.Join(procRoot, "cpuinfo")); err == nil {
		m.cpu = parseCPUModel(text)
	}
	if text, err := os.ReadFile(filepath.Join(procRoot, "loadavg")); err == nil {
		fmt.Sscan(string(text), &m.load)
	}
	if m.load > quietLoad {
		fmt.Fprintf(os.Stderr, "the machine is busy (load %.2f): requests/s and latencies will say little\n", m.load)
	}
	for _, p := range s.peers {
		switch p.name {
		case baseline:
			m.versions = append(m.versions, "lwango "+firstLine(output(ctx, s.repo, "git", "describe", "--always", "--dirty", "--tags")))
		case "nginx":
			_, version, _ := strings.Cut(firstLine(env.nginxBuild), "nginx/")
			m.versions = append(m.versions, "nginx "+version)
		case "gorilla":
			m.versions = append(m.versions, "gorilla/websocket "+moduleVersion("github.com/gorilla/websocket"))
		case "fasthttp":
			m.versions = append(m.versions, "fasthttp "+moduleVersion("github.com/valyala/fasthttp"))
		}
	}
	if env.phpVersion != "" {
		m.versions = append(m.versions, env.phpVersion)
	}
	wrk := strings.Fields(output(ctx, "", env.wrk, "-v"))
	if len(wrk) > 1 {
		m.versions = append(m.versions, "wrk "+wrk[1])
	}
	m.versions = append(m.versions, runtime.Version())
	return m
}

// parseCPUModel reads /proc/cpuinfo, where not every architecture names a model.
func parseCPUModel(text []byte) string {
	for line := range bytes.Lines(text) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(bytes.TrimSpace(key)) == "model name" {
			return string(bytes.TrimSpace(value))
		}
	}
	return "unknown"
}

// output is what a program prints on either stream; programs that print their version may exit with 1 (wrk does).
func output(ctx context.Context, dir, name string, args ...string) string {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput()
	return string(out)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return ""
}

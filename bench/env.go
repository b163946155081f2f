package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// An environment is what all measurements share: programs, a temporary folder, CPUs.
type environment struct {
	settings
	dir      string // removed at the end
	self     string // this binary
	maxFiles uint64 // the hard limit of descriptors per process
	programs map[string]string
	lwango   map[string]string // a built command for each of its programs
	load     float64           // average over the minute before the run
}

// clientFor is the CPU of a client: of its own, unless the work lets all run anywhere.
func (env *environment) clientFor(w work) int {
	if w.Threads > 1 {
		return unpinned
	}
	return env.clientCPU
}

// programs are those that are not built here: a pattern of the file (PHP-FPM's name ends with its
// version), and Debian's packages.
var programs = map[string]struct{ pattern, packages string }{
	"nginx": {"nginx", "nginx-light"},
	"php":   {"php-fpm*", "php-fpm php-opcache"},
	"redis": {"redis-server", "redis-server"},
}

// missing is for a program that something needs: without it, that is left out, unless LWANGO_CI is
// set: there everything is to be installed, and a measurement less would go unnoticed. It looks in
// sbin too, which is not in every PATH.
func (env *environment) missing(name string) bool {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if found, _ := filepath.Glob(filepath.Join(dir, programs[name].pattern)); len(found) > 0 {
			env.programs[name] = found[len(found)-1]
			return false
		}
	}
	text := fmt.Sprintf("%s is not installed (Debian: apt-get install %s)", name, programs[name].packages)
	if os.Getenv("LWANGO_CI") == "1" {
		failf("%s", text)
	}
	fmt.Fprintln(os.Stderr, text+" and left out")
	return true
}

// reservedFiles is for everything that is not a client's connection.
const reservedFiles = 200

func newEnvironment(ctx context.Context, s settings) *environment {
	env := &environment{settings: s, programs: map[string]string{}, lwango: map[string]string{}}
	env.self = must(os.Executable())
	var limit syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur, env.maxFiles = limit.Max, limit.Max
	check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) // for the servers, too
	env.works = slices.DeleteFunc(env.works, func(w work) bool {
		return w.Upstream.Kind == "php" && env.missing("php") || w.Kind == "brokered" && env.missing("redis")
	})
	env.peers = slices.DeleteFunc(env.peers, func(p peer) bool { return p.Program == "nginx" && env.missing("nginx") })
	if php := env.programs["php"]; php != "" && // without it, it is another PHP
		!strings.Contains(output(ctx, "", php, "-n", "-d", "zend_extension=opcache", "-v"), "OPcache") {
		failf("php-fpm has no opcache (Debian: apt-get install php-opcache)")
	}
	for i, w := range env.works {
		if most := int(limit.Max) - reservedFiles; w.Conns > most {
			fmt.Fprintf(os.Stderr, "%s: %d connections: the descriptor limit is %d\n", w.Name, most, limit.Max)
			env.works[i].Conns = most
		}
	}
	env.dir = must(os.MkdirTemp("", "lwango-bench-"))
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &env.load)
	}
	return env
}

// writeFiles writes the files that are served, and the scripts. PHP does not see those of the
// responder, but servers look whether they exist.
func (env *environment) writeFiles() {
	check(os.Chmod(env.dir, 0o755))
	check(os.Mkdir(filepath.Join(env.dir, "files"), 0o755))
	for path, body := range files {
		check(os.WriteFile(filepath.Join(env.dir, path), body, 0o644))
	}
	app := filepath.Join(env.dir, "scripts", appPrefix)
	check(os.CopyFS(app, must(fs.Sub(data, "scripts"))))
	for _, path := range []string{holdScript, releaseScript, heldScript} {
		check(os.WriteFile(filepath.Join(env.dir, "scripts", path), nil, 0o644))
	}
}

// build builds what the works need of lwango, each program in its own folder, because not all are
// of the same module.
func (env *environment) build(ctx context.Context) {
	if env.command != "" {
		env.lwango[lwangoCommand] = must(filepath.Abs(env.command))
	}
	for _, w := range env.works {
		if env.lwango[w.Program] != "" || !slices.ContainsFunc(env.peersOf(w), peer.isLwango) {
			continue
		}
		file := filepath.Join(env.dir, filepath.Base(w.Program))
		build := exec.CommandContext(ctx, "go", "build", "-o", file, ".")
		build.Dir = filepath.Join(env.repo, w.Program)
		if out, err := build.CombinedOutput(); err != nil {
			failf("building %s: %w\n%s", build.Dir, err, out)
		}
		env.lwango[w.Program] = file
	}
}

// describe is the report's head: the machine, and the versions of what is measured.
func (env *environment) describe(ctx context.Context) string {
	var uts unix.Utsname
	check(unix.Uname(&uts))
	_, cpu, _ := strings.Cut(string(must(os.ReadFile("/proc/cpuinfo"))), "model name")
	versions := []string{"lwango " + firstLine(output(ctx, env.repo, "git", "describe", "--always", "--dirty", "--tags"))}
	for _, name := range slices.Sorted(maps.Keys(env.programs)) {
		line := strings.Fields(firstLine(output(ctx, "", env.programs[name], "-v")))
		versions = append(versions, strings.Join(line[:min(3, len(line))], " "))
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if strings.Contains(dep.Path, "fasthttp") || strings.Contains(dep.Path, "gorilla") {
				versions = append(versions, path.Base(dep.Path)+" "+dep.Version)
			}
		}
	}
	return fmt.Sprintf("%s, %d CPUs, Linux %s; %s, %s.", strings.Trim(firstLine(cpu), " \t:"), runtime.NumCPU(),
		unix.ByteSliceToString(uts.Release[:]), strings.Join(versions, ", "), runtime.Version())
}

// output is what a program prints on either stream.
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

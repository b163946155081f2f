package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/bench/tasks"
)

// An environment is one run: what the command line asks for, the machine, the programs.
type environment struct {
	ctx    context.Context
	works  []work // each with those of its peers that take part
	rounds int
	timing
	serverCPU, clientCPU int
	repo                 string // where lwango's module is
	save                 string // a file for the record of this run
	earlier              *record
	smoke                bool
	profile              string // a file for profiles of lwango; "": none are taken

	dir      string            // removed at the end
	maxFiles uint64            // the hard limit of descriptors per process
	files    map[string]string // of the programs, by name
	mute     net.Listener      // see server.Mute; nil: no work has needed it
	load     float64           // average over the minute before the run
	failed   int               // measurements
	profiles []string          // files
}

type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// parse reads the command line.
func parse(ctx context.Context, args []string) (*environment, error) {
	env := &environment{
		ctx:    ctx,
		timing: timing{Warmup: time.Second, Settle: 2 * time.Second, Spread: 2 * time.Second},
		files:  map[string]string{"serve": must(os.Executable())},
	}
	env.serverCPU, env.clientCPU = defaultCPUs()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	worksFlag := flags.String("works", "", "works to measure, comma separated (default all)")
	peersFlag := flags.String("peers", "", "servers to measure, comma separated (default all)")
	flags.IntVar(&env.rounds, "rounds", 5, "rounds per work; the report shows medians")
	flags.DurationVar(&env.Duration, "duration", 3*time.Second,
		"length of one measurement; CPU times are fine-grained from 2s")
	flags.StringVar(&env.repo, "repo", "..", "folder of the lwango module")
	flags.StringVar(&env.save, "save", "", "keep the results in this `FILE`, for -compare")
	compare := flags.String("compare", "", "show medians over those of a run kept in this `FILE`")
	flags.StringVar(&env.profile, "profile", "", "add up profiles of lwango's CPU time in this `FILE`")
	flags.BoolVar(&env.smoke, "smoke", false,
		"run everything once and briefly, check the answers, judge no figures")
	if err := flags.Parse(args); err != nil {
		return nil, usageError{err} // or a wish for help
	}
	chosen, err := choose(*peersFlag, peers)
	if err == nil {
		env.works, err = choose(*worksFlag, works)
	}
	env.keep(func(p peer) bool { return slices.Contains(chosen, p) })
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case env.rounds < 1 || env.Duration < 50*time.Millisecond:
		err = errors.New("-rounds must be at least 1 and -duration at least 50ms")
	case err == nil && len(env.works) == 0:
		err = errors.New("none of these peers has a part in these works")
	}
	if text, failed := os.ReadFile(*compare); *compare != "" {
		err = errors.Join(err, failed, json.Unmarshal(text, &env.earlier))
	}
	if err != nil {
		return nil, usageError{err}
	}
	if env.smoke {
		const brief = 150 * time.Millisecond
		env.rounds, env.timing = 1, timing{0, brief, brief, brief}
		for i := range env.works {
			w := &env.works[i]
			w.Conns, w.Size = min(w.Conns, 100), min(w.Size, 8<<20)
			w.Rooms = min(w.Rooms, w.Conns/5)
			w.Filled = min(w.Filled, 1000)
			w.Streams = min(w.Streams, 10) // slow servers are to answer some within the time
		}
	}
	return env, nil
}

// defaultCPUs are the first two that this process may use; on a machine with one CPU, that one
// twice.
func defaultCPUs() (server, client int) {
	var set unix.CPUSet
	check(unix.SchedGetaffinity(0, &set))
	var cpus []int
	for cpu := 0; len(cpus) < min(2, set.Count()); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus[0], cpus[len(cpus)-1]
}

// keep leaves the works with the peers that take part, and out those without one.
func (env *environment) keep(takesPart func(peer) bool) {
	var kept []work
	for _, w := range env.works {
		w.peers = slices.DeleteFunc(slices.Clone(w.peers), func(p peer) bool {
			return !takesPart(p)
		})
		if len(w.peers) > 0 {
			kept = append(kept, w)
		}
	}
	env.works = kept
}

// prepare finds or builds the programs and writes the files that are served, and the scripts.
func (env *environment) prepare() {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Sscan(string(text), &env.load)
	}
	var limit syscall.Rlimit
	check(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur, env.maxFiles = limit.Max, limit.Max
	check(syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) // for the servers, too
	env.works = slices.DeleteFunc(env.works, func(w work) bool {
		return w.Upstream.Kind != "" && !env.has(application(w.Upstream.Kind).Program)
	})
	env.works = slices.DeleteFunc(env.works, func(w work) bool {
		return w.Kind == "http2" && !env.has(h2load)
	})
	env.keep(func(p peer) bool {
		return env.has(p.Program) && (p.Program != "samples/ring" || hasRing())
	})
	for _, w := range env.works {
		if slices.ContainsFunc(w.peers, peer.isLwango) {
			env.build(w.Program)
		}
		for _, p := range w.peers {
			if strings.Contains(p.Program, "/") { // a folder of lwango's repository
				env.build(p.Program)
			}
		}
	}
	check(os.Chmod(env.dir, 0o755))
	check(os.MkdirAll(filepath.Join(env.dir, "files", "kept"), 0o755))
	for path, body := range files {
		check(os.WriteFile(filepath.Join(env.dir, path), body, 0o644))
	}
	check(os.WriteFile(filepath.Join(env.dir, "index.html"), []byte(hello), 0o644)) // nghttpd's
	// nghttpd and h2o have files alone, and no garbage
	for _, dir := range []string{"", "files"} {
		check(os.WriteFile(filepath.Join(env.dir, dir, tasks.CollectPath), nil, 0o644))
	}
	writeCertificate(env.dir)
	for _, folder := range []string{"sibling", "alone"} {
		dir := filepath.Join(env.dir, folder, path.Dir(textPath))
		check(os.MkdirAll(dir, 0o755))
		text := filepath.Join(dir, path.Base(textPath))
		check(os.WriteFile(text, sourceText(), 0o644))
		if folder == "sibling" { // and so not older than the text
			check(os.WriteFile(text+".gz", gzipped(sourceText()), 0o644))
		}
	}
	if slices.ContainsFunc(env.works, func(w work) bool { return w.Cold }) {
		check(os.Mkdir(filepath.Join(env.dir, coldPath), 0o755))
		for i := range coldFiles {
			writeCold(coldFile(env.dir, i))
		}
	}
	// PHP finds them as the route does: below /app.
	app := filepath.Join(env.dir, "scripts/app")
	check(os.CopyFS(app, must(fs.Sub(data, "scripts"))))
}

// gzipped is what gzip -9 makes of a text.
func gzipped(text []byte) []byte {
	var b bytes.Buffer
	w := must(gzip.NewWriterLevel(&b, gzip.BestCompression))
	must(w.Write(text))
	check(w.Close())
	return b.Bytes()
}

// has looks for a program that something needs: without it, that is left out, unless LWANGO_CI is
// set: there everything is to be installed, and a measurement less would go unnoticed. It looks in
// sbin too, which is not in every PATH.
func (env *environment) has(name string) bool {
	p := programs[name]
	if file, known := env.files[name]; p.Pattern == "" || known {
		return p.Pattern == "" || file != "" // of this repository, or found before
	}
	folders := filepath.SplitList(os.Getenv("PATH"))
	for _, dir := range append(folders, "/usr/sbin", "/usr/local/sbin") {
		found, _ := filepath.Glob(filepath.Join(dir, p.Pattern))
		if len(found) == 0 {
			continue
		}
		if file := found[len(found)-1]; strings.Contains(env.output(file, p.Version...), p.Has) {
			env.files[name] = file
			return true
		}
	}
	env.files[name] = ""
	text := fmt.Sprintf("%s is not installed (Debian: apt-get install %s)", name, p.Packages)
	if os.Getenv("LWANGO_CI") == "1" && !p.Optional {
		failf("%s", text)
	}
	fmt.Fprintln(os.Stderr, text+" and left out")
	return false
}

// hasRing tells whether a process may use io_uring, which containers mostly forbid.
var hasRing = sync.OnceValue(func() bool {
	var params [30]uint32     // struct io_uring_params
	params[2] = 1<<12 | 1<<13 // flags: SINGLE_ISSUER, DEFER_TASKRUN
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		fmt.Fprintf(os.Stderr, "io_uring is refused here (%v), and the peer ring left out\n", errno)
		return false
	}
	unix.Close(int(fd))
	return true
})

// build builds a program of lwango in its own folder, because not all are of the same module.
func (env *environment) build(program string) {
	if env.files[program] != "" {
		return
	}
	env.files[program] = filepath.Join(env.dir, filepath.Base(program))
	build := exec.CommandContext(env.ctx, "go", "build", "-o", env.files[program], ".")
	build.Dir = filepath.Join(env.repo, program)
	if out, err := build.CombinedOutput(); err != nil {
		failf("building %s: %w\n%s", build.Dir, err, out)
	}
}

var versionPattern = regexp.MustCompile(`[0-9]+(\.[0-9]+)+`)

// describe is the report's head: the machine, and the versions of what is measured.
func (env *environment) describe() string {
	var uts unix.Utsname
	check(unix.Uname(&uts))
	_, cpu, _ := strings.Cut(string(must(os.ReadFile("/proc/cpuinfo"))), "model name")
	versions := []string{"lwango " + firstLine(
		env.output("git", "-C", env.repo, "describe", "--always", "--dirty", "--tags"))}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		if file := env.files[name]; file != "" && programs[name].Version != nil {
			text := env.output(file, programs[name].Version...)
			versions = append(versions, name+" "+versionPattern.FindString(text))
		}
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			for _, name := range []string{"fasthttp", "gnet", "gorilla", "coder", "nbio", "go-chi"} {
				if strings.Contains(dep.Path, "/"+name) {
					versions = append(versions, name+" "+dep.Version)
				}
			}
		}
	}
	return fmt.Sprintf("%s, %d CPUs, Linux %s; %s, %s.",
		strings.Trim(firstLine(cpu), " \t:"), runtime.NumCPU(),
		unix.ByteSliceToString(uts.Release[:]), strings.Join(versions, ", "), runtime.Version())
}

// output is what a program prints on either stream.
func (env *environment) output(name string, args ...string) string {
	out, _ := exec.CommandContext(env.ctx, name, args...).CombinedOutput()
	return string(out)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

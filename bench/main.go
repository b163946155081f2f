// Bench runs lwango beside net/http, fasthttp, nginx and others on the same work, on this machine
// and over loopback, and prints what each costs as a Markdown report. README.md says how to run it
// and how to read the figures.
//
//	works.toml, works.go         what is measured, on which servers, and the bounds; conf, scripts
//	main.go, env.go, run.go      flags; programs and the machine; rounds
//	peers.go                     how servers are configured, started and ended
//	client.go                    the clients, each a process; what they check before
//	load.go                      as many requests or echoes as possible, or a fixed rate
//	memory.go, transfer.go       idle, sleeping and waiting connections; large bodies, bursts
//	chat.go, ws.go               rooms, and what of their messages is lost; WebSockets
//	reactor.go                   the event loop of the clients and of the server in epollserve.go
//	proc.go, report.go           CPU time and memory as figures; statistics, the Markdown report
//	serve.go, chatserve.go       the servers in Go; tasks: what they do as lwangoapp does it
//	respond.go                   the FastCGI application
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settings are the command line's wishes.
type settings struct {
	works                []work
	peers                []peer
	rounds               int
	duration             time.Duration // of one measurement
	warmup               time.Duration // of closed-loop load before it, not counted
	settle               time.Duration // before resident memory is read
	spread               time.Duration // over which sleepers wake
	serverCPU, clientCPU int
	repo                 string // where lwango's module is
	command              string // a built command to use instead of building one
	smoke                bool
}

func main() {
	run := func(args []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return bench(ctx, args, os.Stdout)
	}
	// What this binary runs of itself has a process of its own: servers and clients have their own
	// heap, their own scheduler and their own CPU.
	args := os.Args[1:]
	if len(args) > 0 && args[0] == "client" {
		run, args = clientCommand, args[1:]
	} else if len(args) > 0 && args[0] == "serve" {
		run, args = serveCommand, args[1:]
	}
	err, failed := attempt(run, args)
	err = errors.Join(err, failed)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	if errors.As(err, new(usageError)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// peersOf are the chosen peers that have a row for the work.
func (s settings) peersOf(w work) []peer {
	return slices.DeleteFunc(slices.Clone(s.peers), func(p peer) bool {
		return !slices.Contains(w.Peers, p.Name)
	})
}

type usageError struct{ error }

func parseSettings(args []string) (s settings, err error) {
	s = settings{settle: 2 * time.Second, spread: 2 * time.Second}
	first, second := defaultCPUs()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	worksFlag := flags.String("works", "", "works to measure, comma separated (default all of works.toml)")
	peersFlag := flags.String("peers", "", "servers to measure, comma separated (default all of works.toml)")
	flags.IntVar(&s.rounds, "rounds", 5, "rounds per work; the report shows medians")
	flags.DurationVar(&s.duration, "duration", 3*time.Second,
		"length of one measurement; CPU times are fine-grained from 2s")
	flags.DurationVar(&s.warmup, "warmup", time.Second,
		"closed-loop load before each measurement, not counted")
	flags.IntVar(&s.serverCPU, "server-cpu", first, "CPU of the server")
	flags.IntVar(&s.clientCPU, "client-cpu", second, "CPU of the client")
	flags.StringVar(&s.repo, "repo", "..", "folder of the lwango module")
	flags.StringVar(&s.command, "lwango", "",
		"lwango command to measure in the works that need no other program of it (default: built from -repo)")
	flags.BoolVar(&s.smoke, "smoke", false,
		"run everything once and briefly, check the answers, judge no figures")
	if err := flags.Parse(args); err == flag.ErrHelp {
		return s, err
	} else if err != nil {
		return s, usageError{err}
	}
	s.works, err = choose(*worksFlag, works)
	if err == nil {
		s.peers, err = choose(*peersFlag, peers)
	}
	// A peer without a part in any of the works need not be built or installed.
	s.peers = slices.DeleteFunc(s.peers, func(p peer) bool {
		return !slices.ContainsFunc(s.works, func(w work) bool {
			return slices.Contains(w.Peers, p.Name)
		})
	})
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.rounds < 1 || s.duration < 50*time.Millisecond:
		err = errors.New("-rounds must be at least 1 and -duration at least 50ms")
	case err == nil && len(s.peers) == 0:
		err = errors.New("none of these peers has a part in these works")
	}
	if err != nil {
		return s, usageError{err}
	}
	if s.smoke {
		s.rounds, s.duration, s.warmup, s.settle, s.spread =
			1, 150*time.Millisecond, 0, 100*time.Millisecond, 150*time.Millisecond
		for i := range s.works {
			s.works[i].shrink()
		}
	}
	return s, nil
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	s, err := parseSettings(args)
	if err != nil {
		return err
	}
	env := newEnvironment(ctx, s)
	defer os.RemoveAll(env.dir)
	env.writeFiles()
	env.build(ctx)
	head, all := env.describe(ctx), results{}
	for _, w := range env.works {
		env.runWork(ctx, w, all)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	must(io.WriteString(out, env.report(head, all)))
	return all.failures()
}

// defaultCPUs are the first two that this process may use; on a machine with one CPU, that one
// twice.
func defaultCPUs() (server, client int) {
	var set unix.CPUSet
	check(unix.SchedGetaffinity(0, &set))
	var cpus []int
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus[0], cpus[min(1, len(cpus)-1)]
}

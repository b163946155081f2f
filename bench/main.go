// Bench runs lwango beside net/http, fasthttp and nginx on the same work, on this machine and over loopback, and
// prints what each costs as a Markdown report. README.md says how to run it and how to read the figures.
//
//	main.go       flags, the hidden subcommands, and the order of events
//	works.go      what is measured: one row per kind of work
//	peers.go      what is compared: how each server is started and configured
//	serve.go      the net/http and fasthttp servers (`bench serve`)
//	pin.go        which CPU runs what (`bench pin`)
//	process.go    starting a server, waiting until it serves, ending it
//	proc.go       CPU time and memory of a process, from /proc
//	verify.go     the bytes every server must answer before it is measured
//	wrk.go        the closed-loop client: as fast as the server goes
//	client.go     running this binary's own clients
//	openloop.go   the open-loop client: a fixed rate of arrivals (`bench openloop`)
//	arrivals.go   its connections and the reading of answers
//	epoll.go      its system calls
//	idle.go       memory of idle connections
//	echo.go       the client of the TCP echo (`bench echo`)
//	echoserve.go  a goroutine per connection, as its peer
//	epollecho.go  a bare epoll loop, as its peer
//	sleepers.go   the client of handlers that sleep (`bench sleepers`)
//	sleepserve.go such a handler for net/http
//	upstream.go   what requests are passed on to by FastCGI: PHP-FPM, or
//	responder.go  the least that such an application can do (`bench respond`)
//	transfer.go   one large body (`bench transfer`)
//	waiting.go    requests that wait for an application (`bench waiting`)
//	beside.go     one thing while the server does another
//	burst.go      more requests at once than it takes
//	wsclient.go   many WebSockets on one epoll
//	wsframe.go    their frames
//	wsecho.go     the client of the WebSocket echo (`bench wsecho`)
//	wsidle.go     memory of idle WebSockets (`bench wsidle`)
//	chatload.go   the members of chat rooms (`bench chat`)
//	chattally.go  what of their messages is lost, late or doubled
//	chatserve.go  the chat on net/http and gorilla/websocket
//	chatrun.go    the works of the chat, and two servers with a broker
//	broker.go     a redis-server of its own
//	switches.go   context switches of a process, from /proc
//	chatrules/    what the chat servers have in common
//	lwangoapp/    lwango with handlers of its own: a program of its own
//	neighbours/   what servers do beside serving
//	httphello/    the http.Handler that both sides of the bridge work serve
//	run.go        rounds: who is measured when
//	stats.go      median, ratio, spread
//	histogram.go  latency quantiles
//	report.go     the Markdown report
//	bounds.go     the figures that lwango is to reach
//	machine.go    date, kernel, CPU and versions for the report's head
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
	"strings"
	"syscall"
	"time"
)

// settings are the command line's wishes.
type settings struct {
	works     []work
	peers     []peer
	rounds    int
	duration  time.Duration // of one measurement
	warmup    time.Duration // of closed-loop load before it, not counted
	settle    time.Duration // before resident memory is read
	spread    time.Duration // over which sleepers wake
	serverCPU int
	clientCPU int
	repo      string // where lwango's module is
	lwango    string // a built command to use instead of building one
	smoke     bool
}

func main() {
	if len(os.Args) > 1 {
		if run, ok := subcommands[os.Args[1]]; ok {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "bench %s: %v\n", os.Args[1], err)
				os.Exit(1)
			}
			return
		}
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := bench(ctx, os.Args[1:], os.Stdout); {
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usageError)):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// subcommands are what this binary runs of itself: each in a process of its own, so that servers and clients have
// their own heap, their own scheduler and their own CPU.
var subcommands = map[string]func(args []string) error{
	"serve":    serveCommand,
	"pin":      pinCommand,
	"openloop": clientCommand("openloop", openLoop),
	"echo":     clientCommand("echo", loadEcho),
	"sleepers": clientCommand("sleepers", loadSleepers),
	"respond":  responderCommand,
	"transfer": clientCommand("transfer", loadTransfer),
	"waiting":  clientCommand("waiting", loadWaiting),
	"wsecho":   clientCommand("wsecho", loadWSEcho),
	"wsidle":   clientCommand("wsidle", loadWSIdle),
	"chat":     clientCommand("chat", loadChat),
}

// peersOf are the chosen peers that have a row for the work.
func (s settings) peersOf(w work) []peer {
	var chosen []peer
	for _, p := range s.peers {
		if p.takesPart(w) {
			chosen = append(chosen, p)
		}
	}
	return chosen
}

type usageError struct{ error }

func parseSettings(args []string) (settings, error) {
	s := settings{settle: 2 * time.Second, spread: 2 * time.Second}
	first, second := defaultCPUs()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	worksFlag := flags.String("works", "", "works to measure, comma separated (default all: "+strings.Join(workNames(), ",")+")")
	peersFlag := flags.String("peers", "", "servers to measure, comma separated (default all: "+strings.Join(peerNames(), ",")+")")
	flags.IntVar(&s.rounds, "rounds", 5, "rounds per work; the report shows medians")
	flags.DurationVar(&s.duration, "duration", 3*time.Second, "length of one measurement; CPU times are fine-grained from 2s")
	flags.DurationVar(&s.warmup, "warmup", time.Second, "closed-loop load before each measurement, not counted")
	flags.IntVar(&s.serverCPU, "server-cpu", first, "CPU of the server")
	flags.IntVar(&s.clientCPU, "client-cpu", second, "CPU of the client")
	flags.StringVar(&s.repo, "repo", "..", "folder of the lwango module")
	flags.StringVar(&s.lwango, "lwango", "", "lwango command to measure in the works that need no other program of it (default: built from -repo)")
	flags.BoolVar(&s.smoke, "smoke", false, "run everything once and briefly, check the answers, judge no figures")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		return s, usageError{err}
	}
	if flags.NArg() > 0 {
		return s, usageError{fmt.Errorf("unexpected argument %q", flags.Arg(0))}
	}
	if s.rounds < 1 || s.duration < 50*time.Millisecond {
		return s, usageError{errors.New("-rounds must be at least 1 and -duration at least 50ms")}
	}

	var err error
	if s.works, err = choose(*worksFlag, works, func(w work) string { return w.name }); err != nil {
		return s, usageError{fmt.Errorf("-works: %w", err)}
	}
	if s.peers, err = choose(*peersFlag, peers, func(p peer) string { return p.name }); err != nil {
		return s, usageError{fmt.Errorf("-peers: %w", err)}
	}
	// Who has no part in any of the works need not be built or installed.
	s.peers = slices.DeleteFunc(s.peers, func(p peer) bool { return !slices.ContainsFunc(s.works, p.takesPart) })
	if len(s.peers) == 0 {
		return s, usageError{errors.New("none of these peers has a part in these works")}
	}
	if s.smoke {
		s.rounds, s.duration, s.warmup, s.settle, s.spread = 1, 150*time.Millisecond, 0, 100*time.Millisecond, 150*time.Millisecond
		for i := range s.works {
			s.works[i].conns = min(s.works[i].conns, s.works[i].smokeConns)
			s.works[i].size = min(s.works[i].size, s.works[i].smokeSize)
		}
	}
	return s, nil
}

// choose picks the named entries of all, in the order of all; an empty list means every one.
func choose[T any](list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return slices.Clone(all), nil
	}
	wanted := strings.Split(list, ",")
	var chosen []T
	for _, entry := range all {
		if i := slices.Index(wanted, name(entry)); i >= 0 {
			chosen = append(chosen, entry)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("unknown name %q", wanted[0])
	}
	return chosen, nil
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	s, err := parseSettings(args)
	if err != nil {
		return err
	}
	env, err := newEnvironment(ctx, &s)
	if err != nil {
		return err
	}
	defer env.close()

	results := runAll(ctx, env, s)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	text := report(env.machine, s, results)
	if _, err := io.WriteString(out, text); err != nil {
		return err
	}
	if missing := missingRows(text, s); len(missing) > 0 {
		return fmt.Errorf("the report has no row for %s", strings.Join(missing, ", "))
	}
	return results.failures()
}

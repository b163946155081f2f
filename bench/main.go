// Bench runs lwango beside net/http, fasthttp, nginx and others on the same work, on this machine
// and over loopback, and prints what each costs as a Markdown report. README.md says how to run it
// and how to read the figures.
//
//	works.toml, works.go         what is measured, on which servers, and the bounds; conf, scripts
//	env.go, run.go               flags, programs and the machine; rounds
//	peers.go                     how servers are configured, started and ended
//	client.go                    the clients, each a process; what they check before
//	load.go                      as many requests or echoes as possible, or a fixed rate
//	memory.go, transfer.go       idle, sleeping and waiting connections; large bodies
//	cold.go                      files that the page cache does not have
//	http2.go                     HTTP/2, by h2load
//	conn2.go, link2.go           HTTP/2, by clients of our own,
//	streams.go, sockets2.go      and what they do; grpcserve.go: the server of gRPC
//	line.go                      a server that is far away
//	chat.go, ws.go               rooms whose members talk; WebSockets
//	reactor.go                   the event loop of the clients
//	proc.go, report.go           CPU time and memory as figures; statistics, the Markdown report
//	floorserve.go, floorrooms.go the least that any server can do
//	profile.go                   profiles of lwango, for its own build
//	serve.go, gnetserve.go,      the servers in Go, and the applications behind HTTP proxies; tasks:
//	chatserve.go                 what they do as lwangoapp does it
//	respond.go                   the FastCGI application
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

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

func bench(ctx context.Context, args []string, out io.Writer) error {
	env, err := parse(ctx, args)
	if err != nil {
		return err
	}
	env.dir = must(os.MkdirTemp("", "lwango-bench-"))
	defer os.RemoveAll(env.dir)
	env.prepare()
	now := record{env.describe(), results{}}
	for _, w := range env.works {
		now.Cells[w.Name] = env.runWork(w)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	env.writeProfile()
	if env.save != "" {
		check(os.WriteFile(env.save, must(json.Marshal(now)), 0o644))
	}
	must(io.WriteString(out, env.report(now, env.earlier)))
	if env.failed > 0 {
		return fmt.Errorf("%d measurements failed, as their rows say", env.failed)
	}
	return nil
}

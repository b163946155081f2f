// Bench runs lwango beside net/http, fasthttp, nginx and others on the same work, on this machine
// and over loopback, and prints what each costs as a Markdown report. README.md says how to run it
// and how to read the figures.
//
//	main.go               the command line: which measurements run
//	works.toml, works.go  what is measured, on which servers, and the bounds
//	env.go                flags, programs and the machine
//	run.go                rounds: all servers do one work after another
//	peers.go              how servers are configured, started and ended
//	client.go             the clients, each a process, and what they check before they measure
//	load.go               as many requests or echoes as possible, or a fixed rate
//	memory.go             memory of connections that are idle, sleep or wait
//	wsidle.go             memory of members, event streams and TLS connections that are idle
//	transfer.go           large bodies
//	forms.go              forms with a file, at a fixed rate
//	cold.go               files that the page cache does not have
//	herd.go               many requests at once for one target that nobody has asked for before
//	tls.go                handshakes and requests over TLS
//	deflate.go            WebSocket messages with compression
//	http2.go              HTTP/2, by h2load
//	conn2.go              one side of a connection of HTTP/2, without its socket
//	link2.go              connections of HTTP/2 for clients of our own
//	streams.go            HTTP/2 requests with the varied fields of many browsers
//	sockets2.go           WebSockets over HTTP/2
//	line.go               a server that is far away
//	chat.go               rooms whose members talk
//	fill.go               a room that many people enter at once
//	ws.go                 a client with many WebSockets
//	reactor.go            the event loop of the clients
//	fresh.go              a connection for each request
//	proc.go               CPU time and memory of processes
//	report.go             statistics and the Markdown report
//	profile.go            profiles of lwango, for its own build
//	floorserve.go         the least that any server can do for a request
//	floorrooms.go         the least that any server can do for a room
//	serve.go              servers on net/http and fasthttp, and applications behind HTTP proxies
//	chiserve.go           a REST service on chi and net/http
//	chatserve.go          chat rooms on net/http and gorilla/websocket
//	coderserve.go         chat rooms on coder/websocket
//	nbioserve.go          chat rooms on nbio
//	gnetserve.go          a server on gnet
//	eventserve.go         event streams on net/http
//	fillserve.go          rooms that tell their members who is there
//	textrooms.go          rooms of servers whose library makes no frame for many
//	grpcserve.go          the least that a gRPC server can do
//	respond.go            the least that a FastCGI application can do
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

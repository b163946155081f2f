package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/lwango/lwango/bench/httphello"
	"github.com/valyala/fasthttp"
)

const idleTimeout = 300 * time.Second

// serveCommand is `bench serve NAME ADDRESS FILES [BESIDE BACKEND]`: it serves until it is killed.
func serveCommand(args []string) error {
	if len(args) != 3 && len(args) != 5 {
		return fmt.Errorf("usage: bench serve nethttp|fasthttp|goecho|epollecho|gorilla|gorilla-plain ADDRESS FILES [BESIDE BACKEND]")
	}
	ln, err := net.Listen("tcp", args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "nethttp":
		return serveNetHTTP(ln, args[2], args[3:])
	case "fasthttp":
		return serveFastHTTP(ln, args[2])
	case "goecho":
		return serveGoEcho(ln)
	case "epollecho":
		return serveEpollEcho(ln)
	case "gorilla":
		return serveGorilla(ln)
	case "gorilla-plain":
		return serveGorillaPlain(ln)
	}
	return fmt.Errorf("no server %q", args[0])
}

// serveNetHTTP answers with a Server field because the others have one.
func serveNetHTTP(ln net.Listener, folder string, more []string) error {
	fileServer := http.StripPrefix(filesPrefix, http.FileServer(http.Dir(folder)))
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("Server", "nethttp")
		header.Set("Content-Type", "text/plain")
		io.WriteString(w, hello)
	})
	mux.Handle(httphello.Path, httphello.Handler)
	mux.HandleFunc("/sleep", sleepNetHTTP)
	if len(more) > 0 {
		if err := serveBesideNetHTTP(mux, more[0], more[1]); err != nil {
			return err
		}
	}
	mux.HandleFunc(filesPrefix+"/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "nethttp")
		fileServer.ServeHTTP(w, r)
	})
	return (&http.Server{Handler: mux, IdleTimeout: idleTimeout}).Serve(ln)
}

// serveFastHTTP leaves FS as it comes: open files are kept for ten seconds, which spares it an open per request that
// nginx and net/http make.
func serveFastHTTP(ln net.Listener, folder string) error {
	fs := &fasthttp.FS{Root: folder, PathRewrite: fasthttp.NewPathPrefixStripper(len(filesPrefix)), AcceptByteRange: true}
	fileHandler := fs.NewRequestHandler()
	handler := func(ctx *fasthttp.RequestCtx) {
		if path := ctx.Path(); len(path) > len(filesPrefix) && string(path[:len(filesPrefix)+1]) == filesPrefix+"/" {
			fileHandler(ctx)
			return
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(hello)
	}
	return (&fasthttp.Server{Handler: handler, Name: "fasthttp", IdleTimeout: idleTimeout}).Serve(ln)
}

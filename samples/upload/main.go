// Upload takes files from a form, writes them to a folder as they come, and tells the page how far
// they are.
//
//	main.go      flags and routes
//	receive.go   a form, written to files as it comes
//	folder.go    the folder of the files
//	progress.go  how far an upload is
//	page.go      the page
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/lwango/lwango"
)

func main() {
	addr := flag.String("l", "localhost:8080", "`address` to listen to")
	dir := flag.String("dir", "", "`FOLDER` for the files")
	most := flag.Int64("most", 1<<30, "`bytes` that a form may have")
	atOnce := flag.Int("at-once", 64, "`forms` that are received at a time")
	flag.Parse()
	if flag.NArg() > 0 || *dir == "" || *most < 1 || *atOnce < 1 {
		fmt.Fprintln(os.Stderr, "upload: -dir is missing, or a value is wrong; -h shows all flags")
		os.Exit(2)
	}
	to, err := openFolder(*dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "upload:", err)
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// receive has a limit of its own for bodies: so it is receive that tells the client.
	server := lwango.Server{Addr: *addr, Handler: routes(to, *most, *atOnce),
		Limits: lwango.Limits{MaxBodySize: -1}}
	if err := server.Run(ctx); err != nil {
		slog.Error("upload ends", "error", err)
		os.Exit(1)
	}
}

// routes are the page, and what it asks for. A form may have most bytes, and atOnce forms are
// received at a time.
func routes(to *folder, most int64, atOnce int) lwango.Handler {
	mux := lwango.NewMux()
	mux.Handle("GET /{$}", page("index.html", "text/html; charset=utf-8"))
	mux.Handle("GET /upload.js", page("upload.js", "text/javascript; charset=utf-8"))
	mux.Handle("POST /uploads/{id}", receive(to, most, make(chan struct{}, atOnce)))
	mux.Handle("GET /uploads/{id}/progress", follow)
	return mux.Serve
}

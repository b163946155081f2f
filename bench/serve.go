package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/lwango/lwango/bench/tasks"
	"github.com/valyala/fasthttp"
)

const idleTimeout = 300 * time.Second

// serveCommand is `bench serve FLAGS NAME ADDRESS`: it serves until it is killed.
func serveCommand(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	files := flags.String("files", "", "serve this `FOLDER`")
	beside := flags.String("beside", "", "let goroutines answer at this `ADDRESS` too")
	secure := flags.Bool("tls", false, "speak TLS, with the certificate in the folder above -files")
	backend := flags.String("backend", "", "pass /proxy on to this `ADDRESS`, and ask it for /fanout")
	if err := flags.Parse(args); err != nil || flags.NArg() != 2 {
		return cmp.Or(err, errors.New("usage: bench serve FLAGS NAME ADDRESS"))
	}
	name, addr, network := flags.Arg(0), flags.Arg(1), "tcp"
	if filepath.IsAbs(addr) {
		network = "unix"
	}
	if strings.HasPrefix(name, "gnet") {
		return serveGnet(name, addr)
	}
	if name == "nbio" {
		return serveNbio(addr, *files, *secure)
	}
	if name == "floor" {
		return serveFloor(addr)
	}
	ln := must(net.Listen(network, addr))
	switch name {
	case "nethttp", "gorilla", "coder":
		return serveNetHTTP(ln, name, *files, *beside, *backend, *secure)
	case "chi":
		return serveChi(ln)
	case "fasthttp":
		return serveFastHTTP(ln, *files)
	case "goecho":
		return serveGoEcho(ln)
	case "grpc":
		return serveGRPC(ln)
	case "responder":
		check(os.Chmod(addr, 0o666)) // nginx's workers, which are not root, connect too
		return serveResponder(ln)
	}
	return fmt.Errorf("no server %q", name)
}

// serveNetHTTP answers with a Server field because the others have one. The name says which library
// it has for WebSockets.
func serveNetHTTP(ln net.Listener, name, files, beside, backend string, secure bool) error {
	mux := http.NewServeMux()
	tasks.Start(beside, backend, mux.Handle)
	mux.Handle("/", tasks.Hello)
	mux.HandleFunc(tasks.SleepPath, sleepNetHTTP)
	mux.HandleFunc(tasks.FormPath, formNetHTTP)
	mux.HandleFunc(tasks.UploadPath, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	mux.HandleFunc(tasks.DownloadPath, downloadNetHTTP)
	mux.Handle(tasks.FanOutPath, fanOutNetHTTP("http://"+backend+"/"))
	handleEvents(mux)
	if name == "coder" {
		handleCoder(mux)
	} else {
		handleGorilla(mux)
	}
	mux.HandleFunc(tasks.BurnPath, func(w http.ResponseWriter, r *http.Request) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { tasks.Burn(r.URL.Query().Get("ms")) })
		}
		both.Wait()
	})
	fileServer := http.StripPrefix("/files", http.FileServer(http.Dir(files)))
	mux.HandleFunc("/files/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "nethttp")
		fileServer.ServeHTTP(w, r)
	})
	mux.HandleFunc(herdPath, countHerd())
	mux.HandleFunc("/files/kept/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Server", "nethttp")
		w.Header().Set("Age", "100") // so that it has three digits for as long as a measurement lasts
		fileServer.ServeHTTP(w, r)
	})
	s := &http.Server{Handler: mux, IdleTimeout: idleTimeout}
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if secure {
		dir := filepath.Dir(files)
		return s.ServeTLS(ln, filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	}
	return s.Serve(ln)
}

// fanOutNetHTTP asks for a URL many times at once, a goroutine for each, and keeps all connections.
func fanOutNetHTTP(url string) http.Handler {
	client := http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 4 * tasks.Calls},
		Timeout:   tasks.FanOutLimit,
	}
	ask := func(ctx context.Context) (string, error) {
		out, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		answer, err := client.Do(out)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		texts, errs := make([]string, tasks.Calls), make([]error, tasks.Calls)
		var all sync.WaitGroup
		for i := range texts {
			all.Go(func() { texts[i], errs[i] = ask(r.Context()) })
		}
		all.Wait()
		text, err := tasks.FannedOut(texts)
		if err := errors.Join(append(errs, err)...); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Server", "nethttp")
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, text)
	})
}

func sleepNetHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := tasks.Sleep(r.URL.Query().Get("ms"), tasks.Nap)
	if err != nil {
		http.Error(w, "ms", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	fmt.Fprint(w, text)
}

// formNetHTTP is what one writes with net/http: the copy has a buffer of 32 KiB.
func formNetHTTP(w http.ResponseWriter, r *http.Request) {
	form, err := r.MultipartReader()
	for size := int64(0); err == nil; {
		var part *multipart.Part
		if part, err = form.NextPart(); err == io.EOF {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, size)
			return
		}
		if err == nil {
			size, err = writeForm(part)
		}
	}
	http.Error(w, err.Error(), http.StatusBadRequest)
}

func writeForm(part io.Reader) (int64, error) {
	file, err := tasks.TempFile()
	if err != nil {
		return 0, err
	}
	defer file.Close()
	return io.Copy(file, part)
}

// serveFastHTTP leaves FS as it comes: open files are kept for ten seconds, which spares it an open
// per request that nginx and net/http make.
func serveFastHTTP(ln net.Listener, folder string) error {
	root := fasthttp.FS{
		Root: folder, PathRewrite: fasthttp.NewPathPrefixStripper(len("/files")),
		AcceptByteRange: true,
	}
	files := root.NewRequestHandler()
	handler := func(ctx *fasthttp.RequestCtx) {
		if path := ctx.Path(); len(path) > 7 && string(path[:7]) == "/files/" {
			files(ctx)
			return
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(hello)
	}
	return (&fasthttp.Server{
		Handler: handler, Name: "fasthttp", IdleTimeout: idleTimeout,
	}).Serve(ln)
}

// echoBuffer is what an echo server reads at once: more than a message.
const echoBuffer = 16 << 10

// serveGoEcho is what one writes in Go without a thought: a goroutine per connection, read, write.
// Were the connection itself given to the copy, it would splice, and so do something else.
func serveGoEcho(ln net.Listener) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			buf := make([]byte, echoBuffer)
			io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, buf)
		}()
	}
}

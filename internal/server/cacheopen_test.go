package server_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/config"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestCacheIsOpen: a request that waits for the server already when that starts finds an open store:
// one that changes something would else be forgotten, and what a folder has of it sent again.
func TestCacheIsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, socket, kept := filepath.Join(dir, "lwango.conf"), filepath.Join(dir, "s"), filepath.Join(dir, "kept")
	must.Write(t, file, `
[cache]
disk = "kept"
[[site]]
[[site.route]]
prefix = "/"
module = "response"
body = "x"
cache = { ttl = { 200 = "1m" } }
`)
	must.Do(t, os.Mkdir(kept, 0o700))
	must.Do(t, unix.Mkfifo(filepath.Join(kept, "state"), 0o600))
	ctx, end := context.WithCancel(t.Context())
	defer end()
	holding, stop := context.WithCancel(t.Context())
	defer stop()
	answered, held := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(held)
		holdState(holding, filepath.Join(kept, "state"), socket, answered)
	}()
	said := make(chan string, 1)
	go func() {
		defer end()
		answer := firstAnswer(socket)
		answered <- answer
		said <- answer
	}()
	o, _ := server.Parse([]string{"-c", file, "-l", "unix:" + socket},
		flag.NewFlagSet("", flag.ContinueOnError), io.Discard, io.Discard)
	var log strings.Builder
	if code := server.NewProgram(config.Builtin()).Main(ctx, o, "", io.Discard, &log); code != 0 {
		t.Errorf("exit code %d, %s", code, log.String())
	}
	stop()
	<-held
	if answer := <-said; !strings.Contains(answer, "Cache-Status: ") {
		t.Errorf("%q, %s", answer, log.String())
	}
}

// holdState writes the state of a folder, a FIFO, for all that read it. The first one that reads it
// after there is a socket waits until the request is answered, if it is meanwhile.
func holdState(ctx context.Context, fifo, socket string, answered chan string) {
	for held := false; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if x, err := os.Stat(fifo); err != nil || x.Mode().IsRegular() {
			return // the store has its own now
		}
		w, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // nobody reads it
		}
		if _, err := os.Stat(socket); err == nil && !held {
			held = true
			select {
			case <-answered:
			case <-time.After(100 * time.Millisecond):
			}
		}
		fmt.Fprint(w, "lwcache0")
		w.Close()
	}
}

// firstAnswer sends a request as soon as there is a socket, and returns the answer.
func firstAnswer(socket string) string {
	for last := time.Now().Add(wait.Patience); time.Now().Before(last); {
		c, err := net.Dial("unix", socket)
		if err != nil {
			continue // it is not there yet
		}
		defer c.Close()
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		b, _ := io.ReadAll(c)
		return string(b)
	}
	return ""
}

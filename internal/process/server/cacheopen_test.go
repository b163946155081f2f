package server_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// TestCacheIsOpen: a request that waits for the server already when that starts finds an open
// store: one that changes something would else be forgotten, and what a folder has of it sent
// again.
func TestCacheIsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, socket, kept := filepath.Join(dir, "lwango.conf"), filepath.Join(dir,
		"s"), filepath.Join(dir, "kept")
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
	answered, held := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(held)
		holdState(holding, filepath.Join(kept, "state"), socket, answered)
	}()
	said := make(chan string, 1)
	go func() {
		defer end()
		said <- firstAnswer(socket)
		close(answered)
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

// holdState writes the state of a folder, a FIFO, for all that read it: to look at the folder, and
// last, to open the store. Each one that does so after there is a socket waits until the request is
// answered, if it is meanwhile.
func holdState(ctx context.Context, fifo, socket string, answered <-chan struct{}) {
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if x, err := os.Stat(fifo); err != nil || x.Mode().IsRegular() {
			return // the store has its own now
		}
		w, err := os.OpenFile(fifo, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue // nobody reads it
		}
		if _, err := os.Stat(socket); err == nil {
			select {
			case <-answered:
			case <-time.After(lookFor):
			}
		}
		fmt.Fprint(w, "lwcache0")
		w.Close()
	}
}

// lookFor is how long a test looks for what must not come.
const lookFor = 100 * time.Millisecond

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

// onLine is a log that calls a function at a line.
type onLine struct {
	slog.Handler
	line string
	call func()
}

func (o onLine) Enabled(context.Context, slog.Level) bool { return true }

func (o onLine) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == o.line {
		o.call()
	}
	if !o.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return o.Handler.Handle(ctx, r)
}

func (o onLine) WithAttrs([]slog.Attr) slog.Handler { return o }
func (o onLine) WithGroup(string) slog.Handler      { return o }

// TestPurgeWhileTheCacheOpens: what a purge names, for which somebody asks as soon as there is a
// debug address, is not found in the folder of a store that is opened after that.
func TestPurgeWhileTheCacheOpens(t *testing.T) {
	t.Parallel()
	for _, reload := range []bool{false, true} {
		t.Run(fmt.Sprint("reload ", reload), func(t *testing.T) {
			t.Parallel()
			disk := fmt.Sprintf("[cache]\ndisk = %q\n", t.TempDir())
			kept := startKeeping(t, new(pubsub.Hub), disk)
			kept.ask(t, "/", "")
			kept.ask(t, "/other/", "")
			wait.Until(t, "both are kept", func() bool {
				return kept.finds(t, "/") && kept.finds(t, "/other/")
			})
			kept.end()
			kept.store.Close()

			at := "unix:" + filepath.Join(t.TempDir(), "debug")
			purged := make(chan string, 1)
			src := source()
			kept.store = cache.NewStore()
			t.Cleanup(kept.store.Close)
			src.Cache, src.Topics = kept.store, new(pubsub.Hub)
			src.Logger = slog.New(onLine{logtext.Quiet.Handler(), "debug: listening", func() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					var failure strings.Builder
					server.PurgeCache([]string{"-d", at, "-tag", "greeting"}, &failure)
					purged <- failure.String()
				}()
				select {
				case <-done:
				case <-time.After(lookFor):
				}
			}})
			text := keepingText(disk + fmt.Sprintf("[debug]\naddress = %q\n", at))
			if reload {
				kept.running = serve(t, src, "threads = 1\n")
				kept.reload(text)
			} else {
				kept.running = serve(t, src, text)
			}
			if failure := <-purged; failure != "" {
				t.Error(failure)
			}
			if reload { // a folder that it brings into use begins empty
				if kept.finds(t, "/") || kept.finds(t, "/other/") {
					t.Error("what the folder had is found")
				}
				kept.end()
				return
			}
			wait.Until(t, "the page is looked for, and purged", func() bool {
				if kept.finds(t, "/other/") && kept.finds(t, "/") {
					t.Fatal("what was purged is found")
				}
				x, _ := kept.store.Stats()
				return x.Purged > 0
			})
			wait.Until(t, "another page is found", func() bool { return kept.finds(t, "/other/") })
			kept.end()
		})
	}
}

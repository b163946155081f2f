package server_test

import (
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// signaller sends signals to this process, each when the one before has come.
func signaller(t *testing.T) func(syscall.Signal) {
	received := make(chan os.Signal, 64)
	signal.Notify(received, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM,
		syscall.SIGINT)
	t.Cleanup(func() { signal.Stop(received) })
	return func(sig syscall.Signal) {
		t.Helper()
		must.Do(t, syscall.Kill(syscall.Getpid(), sig))
		<-received
	}
}

// TestStopBehindReloads: a signal that stops the server has its effect however many others wait,
// and what is asked for again while it waits is done once.
func TestStopBehindReloads(t *testing.T) {
	send := signaller(t)
	var reloads atomic.Int32
	entered, release := make(chan bool, 64), make(chan bool)
	p := server.NewProgram(config.Builtin())
	handlers.RegisterModule(p.Modules, "slow", struct{}{},
		func(struct{}, handlers.Env) (conn.Handler, error) {
			if reloads.Add(1) > 1 { // the first one is the start
				entered <- true
				<-release
			}
			return func(*conn.Request, *conn.Response) int { return 204 }, nil
		})
	file := filepath.Join(t.TempDir(), "lwango.conf")
	must.Write(t, file, "[[listener]]\naddress = \"127.0.0.1:0\"\n"+
		route("prefix = \"/\"\nmodule = \"slow\"\n"))
	o, _ := server.Parse([]string{"-c", file}, flag.NewFlagSet("", flag.ContinueOnError), io.Discard,
		io.Discard)
	r, log := io.Pipe()
	lines := make(chan string, 1000)
	go scan(r, lines)
	done := make(chan int, 1)
	go func() {
		done <- p.Main(t.Context(), o, "", io.Discard, log)
		log.Close()
	}()
	logged(t, lines, `msg=listening address=(\S+)`)
	send(syscall.SIGHUP)
	<-entered
	for range 12 {
		send(syscall.SIGHUP)
		send(syscall.SIGUSR1)
	}
	send(syscall.SIGTERM)
	close(release)
	select {
	case code := <-done:
		if code != 0 {
			t.Errorf("code %d", code)
		}
	case <-time.After(wait.Patience):
		t.Fatal("SIGTERM is lost")
	}
	if n := reloads.Load(); n > 2 {
		t.Errorf("%d reloads behind SIGTERM", n-2)
	}
}

// TestSecondSignalKeepsLog: what was answered is in the access log, also if a second signal cuts
// the stop short.
func TestSecondSignalKeepsLog(t *testing.T) {
	send := signaller(t)
	dir := t.TempDir()
	file, path := filepath.Join(dir, "lwango.conf"), filepath.Join(dir, "access.log")
	must.Write(t, file,
		"grace = \"1h\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[access_log]\npath = \"access.log\"\n")
	p := server.NewProgram(config.Builtin())
	asked, release := make(chan bool), make(chan bool)
	p.Handle("/quick", func(*conn.Request, *conn.Response) int { return 204 })
	p.Handle("/slow", func(req *conn.Request, resp *conn.Response) int {
		close(asked)
		_ = req.Await(time.Minute, func(context.Context) error { <-release; return nil })
		return 204
	})
	o, _ := server.Parse([]string{"-c", file}, flag.NewFlagSet("", flag.ContinueOnError), io.Discard,
		io.Discard)
	r, log := io.Pipe()
	lines := make(chan string, 1000)
	go scan(r, lines)
	done := make(chan int, 1)
	go func() {
		done <- p.Main(t.Context(), o, "", io.Discard, log)
		log.Close()
	}()
	address := logged(t, lines, `msg=listening address=(\S+)`)
	defer close(release)
	go http.Get("http://" + address + "/slow") // it gets no answer
	<-asked
	must.Do(t, noContent("http://"+address+"/quick"))
	send(syscall.SIGTERM)
	logged(t, lines, `(msg=stopping)`)
	send(syscall.SIGTERM)
	if code := <-done; code != 1 {
		t.Errorf("code %d", code)
	}
	if text := string(must.Get(os.ReadFile(path))(t)); strings.Count(text, "GET /quick") != 1 {
		t.Errorf("the access log has %q", text)
	}
}

package lwango_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestReloadRefuses: what cannot change while a server runs is an error, and not passed over. Zero
// stands for what there is.
func TestReloadRefuses(t *testing.T) {
	leavesNothing(t)
	log := new(logtext.Buffer)
	s := lwango.Server{Addr: "127.0.0.1:0", Handler: says("old"), Threads: 1, Workers: 8,
		Logger: slog.New(slog.NewTextHandler(log, nil))}
	r, stop := embed(t, s)
	for want, change := range map[string]func(s *lwango.Server){
		"Threads: cannot change from 1 to 2 ":            func(s *lwango.Server) { s.Threads = 2 },
		"Workers: cannot change from 8 to 9 ":            func(s *lwango.Server) { s.Workers = 9 },
		"Handoff: cannot change from direct to channel ": func(s *lwango.Server) { s.Handoff = coro.Channel },
	} {
		next := s
		next.Handler = says("new")
		change(&next)
		if err := r.Reload(next); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if got := get(t, "http://"+r.Addrs()[0]); string(got) != "old" {
			t.Errorf("%s: %q", want, got)
		}
	}
	s.Handler, s.Threads, s.Workers = says("new"), 0, 0
	log.Reset()
	if err := r.Reload(s); err != nil {
		t.Error(err)
	}
	if got := get(t, "http://"+r.Addrs()[0]); string(got) != "new" {
		t.Errorf("at last: %q", got)
	}
	if text := log.String(); !strings.Contains(text, "msg=reloaded by=") || strings.Contains(text, "file") {
		t.Errorf("logged: %s", text)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestReloadOnLoop: a handler that calls Reload on its loop, which Reload would wait for, gets an
// error at once; off the loop it does not.
func TestReloadOnLoop(t *testing.T) {
	leavesNothing(t)
	for _, handoff := range []coro.Handoff{coro.Direct, coro.Channel} {
		var r *lwango.Running
		started := make(chan struct{})
		s := lwango.Server{Addr: "127.0.0.1:0", Threads: 1, Handoff: handoff, Logger: logtext.Quiet}
		next := s
		next.Handler = says("new")
		s.Handler = lwango.Handler(func(req *lwango.Request, resp *lwango.Response) int {
			<-started // then r is set
			reload := func() error { return r.Reload(next) }
			if err := reload(); err == nil || !strings.Contains(err.Error(), "was called on a loop") {
				t.Errorf("on the loop: %v", err)
			}
			if err := req.Await(reload, -1); err != nil {
				t.Errorf("off the loop: %v", err)
			}
			return resp.Text(200, "old")
		})
		running, stop := embed(t, s)
		r = running
		close(started)
		for _, want := range []string{"old", "new"} {
			if got := get(t, "http://"+r.Addrs()[0]); string(got) != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopCountsSessions: the line of the log that says how many connections are open at a stop
// counts those of Streams.
func TestStopCountsSessions(t *testing.T) {
	leavesNothing(t)
	log := new(logtext.Buffer)
	met := make(chan bool)
	_, stop := embed(t, lwango.Server{Logger: slog.New(slog.NewTextHandler(log, nil)),
		Listeners: []lwango.Listener{{Addr: "127.0.0.1:0",
			Streams: func(th *loop.Thread, s *stream.Stream) error {
				_, err := io.CopyN(io.Discard, s, 1)
				met <- true
				return err
			}}}})
	at := regexp.MustCompile(`address=(\S+)`).FindStringSubmatch(log.String())
	for range 3 {
		c, err := new(net.Dialer).DialContext(context.Background(), "tcp", at[1])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		<-met
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "connections=3") {
		t.Errorf("logged: %s", log)
	}
}

package fastcgi_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/wait"
)

// inBackground is a server that has goroutines for checks.
type inBackground struct {
	around.None
	run func(func(context.Context))
}

func (b inBackground) Background(f func(context.Context)) { b.run(f) }

// TestHealth: an application whose ping does not answer as it should is taken out, and comes back.
func TestHealth(t *testing.T) {
	var mode atomic.Int32
	asked := make(chan string, 1)
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		req := c.Read()
		if req == nil {
			return
		}
		select {
		case asked <- req.Env["SCRIPT_NAME"] + " " + req.Env["SCRIPT_FILENAME"] + " " +
			req.Env["QUERY_STRING"]:
		default:
		}
		switch mode.Load() {
		case 0:
			c.Stdout("Content-Type: text/plain\r\n\r\n", "po", "ng")
			c.End()
		case 1:
			c.Stdout("Status: 503 Busy\r\n\r\n")
			c.End()
		case 2:
			c.Stdout("Content-Type: text/plain\r\n\r\nstarting")
			c.End()
		case 3: // no answer at all
			c.Close()
		case 4:
			c.Raw("HTTP/1.1 200 OK\r\n\r\n")
		case 5:
			c.End()
		}
	})
	var log logtext.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	env := handlers.Env{Prefix: "/", Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Process: inBackground{run: func(w func(context.Context)) { running.Go(func() { w(ctx) }) }}}
	_, err := module.Build(t, fastcgi.Register, "fastcgi", env, func(s *fastcgi.Settings) {
		s.Address, s.ScriptPath = []string{up.Address}, t.TempDir()
		s.Health.Path, s.Health.Body = "/ping?x=1", "pong"
		s.Health.Interval, s.Health.Timeout = time.Millisecond, wait.Patience
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "/ping /ping x=1" {
		t.Error(got)
	}
	logged := func(n int, text string) {
		t.Helper()
		wait.Until(t, text, func() bool { return strings.Count(log.String(), text) == n })
	}
	for i, want := range []string{"/ping?x=1 has status 503", `/ping?x=1 has no \"pong\" in its body`,
		"EOF", "version", "unexpected EOF"} {
		mode.Store(int32(i + 1))
		logged(i+1, "fastcgi: upstream taken out")
		if text := log.String(); !strings.Contains(text, want) {
			t.Errorf("%s\nwant %s", text, want)
		}
		mode.Store(0)
		logged(i+1, "fastcgi: upstream works again")
	}
}

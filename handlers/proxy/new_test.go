package proxy_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestNew: a handler of a program is checked until its context ends, which leaves no goroutine, and
// answers also after that.
func TestNew(t *testing.T) {
	leak.Goroutines(t)
	o := start(t, always(hello))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	log := new(logtext.Buffer)
	s := proxy.To(o.addr)
	s.IdleTimeout = 50 * time.Millisecond
	s.Health.Path, s.Health.Interval, s.Health.Falls = "/up", 100*time.Millisecond, 1
	h := must.Get(proxy.New(ctx, s, handlers.Env{Logger: slog.New(slog.NewTextHandler(log, nil))}))(t)
	wait.Until(t, "two checks", func() bool { return o.accepted.Load() >= 2 })
	f := module.Start(t, modes.Direct, "/", h)
	client := f.Dial()
	client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if a := client.Answer("GET"); a.StatusCode != 200 {
		t.Errorf("%s: %s", a.Status, log.String())
	}
	cancel()
	client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if a := client.Answer("GET"); a.StatusCode != 200 {
		t.Errorf("after the end of the context: %s: %s", a.Status, log.String())
	}
}

// TestNewRefuses: settings are checked as those of a file, and must have begun with the defaults.
func TestNewRefuses(t *testing.T) {
	with := func(change func(*proxy.Settings)) proxy.Settings {
		s := proxy.To("127.0.0.1:1")
		change(&s)
		return s
	}
	for want, s := range map[string]proxy.Settings{
		"idle_timeout: is 0: settings begin with proxy.To": {Address: []string{"127.0.0.1:1"}},
		"Version: must be one of 1.1 2":                    with(func(s *proxy.Settings) { s.Version = "3" }),
		"address: missing":                                 proxy.To(),
		"host: expected":                                   with(func(s *proxy.Settings) { s.Host = "a b" }),
		"FirstByteTimeout: must be at least 1ms, found 1ns": with(func(s *proxy.Settings) {
			s.FirstByteTimeout = 1
		}),
		"SendTimeout: must be": with(func(s *proxy.Settings) { s.SendTimeout = -1 }),
		"Health.Interval: must be between 100ms and 1h, found 10ms": with(func(s *proxy.Settings) {
			s.Health.Path, s.Health.Interval = "/up", 10*time.Millisecond
		}),
		"Health.Falls: must be between 1 and 100, found 0": with(func(s *proxy.Settings) {
			s.Health.Falls = 0
		}),
		"Circuit.Errors: must be between 0 and 100, found 101": with(func(s *proxy.Settings) {
			s.Circuit.Errors = 101
		}),
		`Sticky.SameSite: must be one of strict lax none, found "x"`: with(func(s *proxy.Settings) {
			s.Sticky.SameSite = "x"
		}),
		"ReadTimeout: must be at least 1ms, found 0s": with(func(s *proxy.Settings) {
			s.ReadTimeout = 0
		}),
		`health: expected a path`: with(func(s *proxy.Settings) {
			s.Health.Body = "x"
		}),
	} {
		_, err := proxy.New(t.Context(), s, handlers.Env{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

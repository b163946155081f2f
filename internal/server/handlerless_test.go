package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/config"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestServerWithoutHandler: a server in code that has nothing to answer with does not start. One
// that speaks no HTTP needs nothing, and what was registered will do.
func TestServerWithoutHandler(t *testing.T) {
	streams := func(*loop.Thread, *stream.Stream) error { return nil }
	const wrong = "nothing would answer requests"
	for _, row := range []struct {
		name      string
		listeners []config.Listening
		handle    bool
		want      string
	}{
		{"nothing", []config.Listening{{Addr: "127.0.0.1:0"}}, false, wrong},
		{"registered", []config.Listening{{Addr: "127.0.0.1:0"}}, true, ""},
		{"streams", []config.Listening{{Addr: "127.0.0.1:0", Streams: streams}}, false, ""},
		{"both", []config.Listening{{Addr: "127.0.0.1:0", Streams: streams}, {Addr: "127.0.0.1:0"}}, false, wrong},
	} {
		p := server.NewProgram(config.Builtin())
		if row.handle {
			p.Handle("/", func(*conn.Request, *conn.Response) int { return 200 })
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := p.Start(ctx, &config.Embedding{Listeners: row.listeners, Threads: 1}, logtext.Quiet, func() {})
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		cancel()
		if err == nil {
			if err := r.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}

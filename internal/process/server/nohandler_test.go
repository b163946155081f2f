package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestServerWithoutHandler: a server in code that has nothing to answer with does not start. One
// that speaks no HTTP needs nothing, and what was registered will do.
func TestServerWithoutHandler(t *testing.T) {
	streams := func(*loop.Thread, *stream.Conn) error { return nil }
	plain := config.Listener{Endpoint: sockets.Endpoint{Listen: "127.0.0.1:0"}}
	other := plain
	other.Streams = streams
	const wrong = "nothing would answer requests"
	for _, row := range []struct {
		name      string
		listeners []config.Listener
		handle    bool
		want      string
	}{
		{"nothing", []config.Listener{plain}, false, wrong},
		{"registered", []config.Listener{plain}, true, ""},
		{"streams", []config.Listener{other}, false, ""},
		{"both", []config.Listener{other, plain}, false, wrong},
	} {
		p := server.NewProgram(config.Builtin())
		if row.handle {
			p.Handle("/", func(*conn.Request, *conn.Response) int { return 200 })
		}
		ctx, cancel := context.WithCancel(t.Context())
		r, err := p.Start(ctx, config.Source{Logger: logtext.Quiet,
			Code: &config.Config{Listeners: row.listeners, Threads: 1}}, func() {})
		if row.want == "" && err != nil ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
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

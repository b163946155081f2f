package server_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestWaitOfAStuckLoop: Wait names what holds a loop up when the grace period is over. The loop
// ends when it can, though the server has gone.
func TestWaitOfAStuckLoop(t *testing.T) {
	defer server.SetStandstill(20 * time.Millisecond)()
	held, release := make(chan struct{}), make(chan struct{})
	ended := make(chan *loop.Loop, 1)
	s := source()
	s.Counters = new(config.Counters)
	handlers.RegisterModule(s.Modules, "hold", struct{}{},
		func(struct{}, handlers.Env) (conn.Handler, error) {
			return func(req *conn.Request, _ *conn.Response) int {
				ended <- req.Loop()
				close(held)
				<-release
				return 200
			}, nil
		})
	s.File = filepath.Join(t.TempDir(), "lwango.conf")
	s.Listen = []string{"127.0.0.1:0"}
	must.Write(t, s.File, "threads = 1\ngrace = \"1ms\"\naccess_log = { path = \"access.log\" }\n"+
		route("prefix = \"/\"\nmodule = \"hold\"\n"))
	config := must.Get(s.Load())(t)
	srv := must.Get(server.Start(s, config))(t)
	c := must.Dial(t, "tcp", srv.Addresses()[0])
	must.Get(c.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")))(t)
	<-held
	srv.Stop()
	var stuck *loop.StuckError
	if err := srv.Wait(); !errors.As(err, &stuck) ||
		!strings.Contains(stuck.Place, "blockedstop_test.go:") {
		t.Errorf("Wait: %v", err)
	}
	close(release)
	if err := (<-ended).Layer().AwaitEnd(time.Now().Add(time.Minute), time.Minute); err != nil {
		t.Error(err)
	}
}

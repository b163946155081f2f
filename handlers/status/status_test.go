package status_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/status"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// counting is a server that tells of itself.
type counting struct {
	around.None
	count func() (*metrics.Snapshot, error)
}

func (c counting) Count() func() (*metrics.Snapshot, error) { return c.count }

// TestManyLooks: while the server gathers what it says of itself, its loop serves others, and all
// that ask meanwhile get the same.
func TestManyLooks(t *testing.T) {
	const looks = 20
	var gathered, came atomic.Int32
	gather, all := make(chan struct{}), make(chan struct{})
	snapshot := func() (*metrics.Snapshot, error) {
		<-gather
		return &metrics.Snapshot{PID: int(gathered.Add(1))}, nil
	}
	h := must.Get(status.New(status.Settings{},
		handlers.Env{Process: around.In(around.Context{Process: counting{count: snapshot}})}))(t)
	handler := func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/hello" {
			return 204
		}
		if came.Add(1) == looks {
			close(all)
		}
		return h(req, resp)
	}
	s := server.Start(t, modes.Direct, conn.Config{Handler: handler})
	var clients [looks]*server.Client
	for i := range clients {
		clients[i] = s.Dial()
		clients[i].Send("GET /json HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	select {
	case <-all:
	case <-time.After(wait.Patience):
		close(gather)
		t.Fatalf("%d requests have begun while one waits", came.Load())
	}
	if a := s.Request("GET /hello", nil, ""); a.StatusCode != 204 {
		t.Error(a.Status)
	}
	close(gather)
	first := clients[0].Answer("GET")
	for _, c := range clients[1:] {
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != first.Text {
			t.Errorf("%s %s\nanother one: %s", a.Status, a.Text, first.Text)
		}
	}
	if n := gathered.Load(); n != 1 {
		t.Errorf("%d looks for %d requests", n, looks)
	}
}

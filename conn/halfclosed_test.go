package conn_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestHalfClosed: a client that has ended its sending half gets what a handler has made. It gets
// nothing, and no 200, where the handler has made nothing because its wait was ended.
func TestHalfClosed(t *testing.T) {
	t.Parallel()
	waits := func(req *conn.Request) bool { return req.Sleep(time.Minute) == loop.ErrClientGone }
	began := make(chan struct{}, 1)
	handlers := map[string]conn.Handler{
		"/gives up": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			if waits(req) {
				return 0
			}
			return resp.Text(200, "late")
		},
		"/answers": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			if waits(req) {
				return resp.Text(0, "all the same")
			}
			return 200
		},
		"/says so": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			if waits(req) {
				return 204
			}
			return 200
		},
		"/goes on": func(req *conn.Request, resp *conn.Response) int {
			req.KeepWaiting(true)
			began <- struct{}{}
			_ = req.Sleep(time.Millisecond)
			return 0
		},
	}
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{Handler: byPath(handlers), AccessLog: log})
		for path, want := range map[string]struct {
			status, logged int
			text           string
		}{
			"/gives%20up": {0, 499, ""},
			"/answers":    {200, 499, "all the same"},
			"/says%20so":  {204, 499, ""},
			"/goes%20on":  {200, 200, ""},
		} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			<-began
			c.CloseWrite()
			_ = c.SetReadDeadline(time.Now().Add(wait.Patience))
			status, text := 0, ""
			if got := rest(t, c.R); got != "" {
				a := parse(t, got, "GET")[0]
				status, text = a.StatusCode, a.Text
			}
			if status != want.status || text != want.text {
				t.Errorf("%s: %d %q, want %d %q", path, status, text, want.status, want.text)
			}
			if e := log.one(t); e.Status != want.logged {
				t.Errorf("%s: %d is logged, want %d", path, e.Status, want.logged)
			}
		}
	}, plain, direct)
}

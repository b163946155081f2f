package conn_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// described returns what the connections of the first loop say of themselves.
func described(s *site) (all []string) {
	s.T.Helper()
	s.On(func(l *loop.Loop) {
		l.EachThread(true, func(t loop.ThreadState) {
			if d, ok := t.Task.(interface{ Describe() string }); ok {
				all = append(all, d.Describe())
			}
		})
	})
	return all
}

// TestDescribe: what a dump of threads says of a connection, also of one that a handler has taken
// over.
func TestDescribe(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		ids, release := make(chan string, 1), make(chan int)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			req.Layer().SetPrefix("/" + strings.Split(req.Path(), "/")[1])
			if req.Path() == "/quick" {
				return 200
			}
			id := req.ID()
			if req.Prefix() == "/hijack" {
				if req.Path() == "/hijack/with" {
					_ = req.Context()
				}
				if _, _, err := w.Hijack(); err != nil {
					t.Error(err)
				}
			}
			ids <- id
			_, _ = req.AwaitAny(-1, loop.FromChan(release))
			return 200
		}})
		defer close(release)
		for path, want := range map[string]string{
			"/quick":          "client %s, idle",
			"/wait/x?q":       `client %s, request %s, GET "/wait/x?q", route "/wait"`,
			"/hijack/without": `client %s, hijacked by request %s, route "/hijack"`,
			"/hijack/with":    `client %s, hijacked by request %s, route "/hijack"`,
		} {
			c := s.Dial()
			at := c.LocalAddr().String()
			c.Send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
			if path == "/quick" {
				c.Answer("GET")
				want = fmt.Sprintf(want, at)
			} else {
				want = fmt.Sprintf(want, at, <-ids)
			}
			s.Settle()
			if all := described(s); len(all) != 1 || all[0] != want {
				t.Errorf("%s: %q, want %q", path, all, want)
			}
			if path != "/quick" {
				release <- 0
			}
			c.Close()
			s.Idle()
		}
	}, plain, direct)
}

// TestTracedToTheEnd: a request's task in a trace ends, which is when its route is noted, however
// its handler ends.
func TestTracedToTheEnd(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var text bytes.Buffer
		must.Do(t, trace.Start(&text))
		defer trace.Stop()
		entered := make(chan struct{}, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			req.Layer().SetPrefix("route of " + req.Path())
			entered <- struct{}{}
			switch req.Path() {
			case "/exits":
				runtime.Goexit()
			case "/panics":
				panic("a test")
			case "/hijacks":
				_, _, _ = w.Hijack()
			case "/killed":
				_ = req.Sleep(time.Hour)
			}
			return 200
		}})
		s.Panics.Expect()
		paths := []string{"/returns", "/panics", "/exits", "/hijacks", "/killed"}
		for _, path := range paths {
			s.Dial().Send(strings.Replace(upgrade2, "/ws", path, 1))
			<-entered
		}
		s.Stop(0)
		trace.Stop()
		for _, path := range paths {
			if !bytes.Contains(text.Bytes(), []byte("route of "+path)) {
				t.Errorf("the task of %s has not ended", path)
			}
		}
	}, plain, direct, modes.HTTP2)
}

package conn_test

import (
	"bytes"
	"fmt"
	"runtime"
	"runtime/trace"
	"slices"
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
		l.Layer().EachThread(true, func(t loop.ThreadState) {
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

// TestDescribeOwners: over both protocols, a dump of threads says of which request a connection or
// stream is that a handler has taken over, and an answer that is kept open.
func TestDescribeOwners(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		ids, entered := make(chan string, 1), make(chan bool, 1)
		idle := &tailor{run: func(th *loop.Thread) (time.Duration, bool) {
			select {
			case entered <- true:
			default: // called again: the client has left
			}
			return -1, !th.Gone()
		}}
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			req.Layer().SetPrefix(req.Path())
			ids <- req.ID()
			switch req.Path() {
			case "/keeps":
				keepOpen(w, idle)
			case "/hands":
				takeOver(w, idle)
			case "/hijacks":
				if _, _, err := w.Hijack(); err != nil {
					t.Error(err)
				}
				entered <- true
				_ = req.Sleep(time.Hour)
			}
			return 200
		}})
		for path, how := range map[string]string{
			"/keeps": "kept open", "/hands": "hijacked", "/hijacks": "hijacked",
		} {
			c := s.Dial()
			request := "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"
			if path != "/keeps" {
				request = strings.Replace(upgrade2, "/ws", path, 1)
			}
			c.Send(request)
			want := fmt.Sprintf(", %s by request %s, route %q", how, <-ids, path)
			<-entered
			s.Settle()
			all := described(s)
			if !slices.ContainsFunc(all, func(d string) bool {
				return strings.HasPrefix(d, "client 127.0.0.1:") && strings.HasSuffix(d, want)
			}) {
				t.Errorf("%s: %q, want one with %q", path, all, want)
			}
			c.Close()
			s.Idle()
		}
	}, plain, direct, modes.HTTP2)
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

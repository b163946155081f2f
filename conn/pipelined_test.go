package conn_test

import (
	"context"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestPipelinedAnswerDoesNotWait: an answer that is complete goes out before the handler of the
// next request waits, in whichever way.
func TestPipelinedAnswerDoesNotWait(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		gate := make(chan int)
		var pipe [2]int
		must.Do(t, unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
		pass := os.NewFile(uintptr(pipe[1]), "pipe")
		t.Cleanup(func() { pass.Close() })
		await := func(th *loop.Thread) error {
			_, err := th.AwaitAny(-1, loop.FromChan(gate))
			return err
		}
		done := func(err error) int {
			if err != nil {
				return 500
			}
			return 204
		}
		ways := map[string]conn.Handler{
			"/any": func(req *conn.Request, w *conn.Response) int {
				return done(await(req.Thread))
			},
			"/all": func(req *conn.Request, w *conn.Response) int {
				return done(req.AwaitAll(-1, loop.FromChan(gate)))
			},
			"/sleep": func(req *conn.Request, w *conn.Response) int {
				for {
					select {
					case <-gate:
						return 204
					default:
						if err := req.Sleep(time.Millisecond); err != nil {
							return 500
						}
					}
				}
			},
			"/function": func(req *conn.Request, w *conn.Response) int {
				return done(req.Await(-1, func(context.Context) error { <-gate; return nil }))
			},
			"/descriptor": func(req *conn.Request, w *conn.Response) int {
				_, err := req.ReadFD(-1, pipe[0], make([]byte, 1))
				return done(err)
			},
			"/threads": func(req *conn.Request, w *conn.Response) int {
				req.Go(await)
				return 204
			},
			"/joined": func(req *conn.Request, w *conn.Response) int {
				req.Go(await)
				return done(req.Join())
			},
			"/duplex": func(req *conn.Request, w *conn.Response) int {
				d := req.Layer().Duplex()
				if err := d.Await(-1, false, loop.FromChan(gate)); err != nil {
					return 500
				}
				return done(d.End())
			},
			"/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				<-gate
				w.WriteHeader(204)
			})),
			"/deferred": func(req *conn.Request, w *conn.Response) int {
				req.Defer(func() { _ = await(req.Thread) })
				return 204
			},
		}
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			if h := ways[req.Path()]; h != nil {
				return h(req, w)
			}
			return hello(req, w)
		}})
		for path := range ways {
			if path == "/descriptor" && m.Loops > 1 {
				continue
			}
			c := s.Dial()
			send(t, c, get+get+"GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"+get)
			for range 2 {
				if a := c.Answer("GET"); a.Text != "Hello, world!" {
					t.Errorf("%s: in front %s", path, a.Status)
				}
			}
			if path == "/deferred" { // its own does not wait for what is deferred either
				c.Answer("GET")
			}
			if path == "/descriptor" {
				_, _ = pass.Write([]byte{1})
			} else {
				gate <- 0
			}
			if path != "/deferred" {
				if a := c.Answer("GET"); a.StatusCode != 204 {
					t.Errorf("%s: %s", path, a.Status)
				}
			}
			if a := c.Answer("GET"); a.Text != "Hello, world!" {
				t.Errorf("%s: behind %s", path, a.Status)
			}
			c.Close()
		}
		s.Idle()
		unix.Close(pipe[0])
	})
}

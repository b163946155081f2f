package conn_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// companion is a thread of a request that fails when it is told to.
type companion struct {
	fail   chan struct{}
	failed chan struct{} // closed when it has
}

var companionKey conn.Key[*companion]

// withCompanion starts one beside next. With join, it takes the failure from the answer.
func withCompanion(fails func() error, join bool, next conn.Handler) conn.Handler {
	return func(req *conn.Request, resp *conn.Response) int {
		c := &companion{make(chan struct{}), make(chan struct{})}
		conn.Set(req, &companionKey, c)
		end := req.Go(func(t *loop.Thread) error {
			if _, err := t.AwaitAny(-1, loop.FromChan(c.fail)); err != nil {
				return err
			}
			return fails()
		}).End()
		req.Loop().Go(func(t *loop.Thread) {
			_, _ = end.Await(t, -1)
			close(c.failed)
		})
		status := next(req, resp)
		if join {
			if err := req.Join(); err == nil {
				return 418
			}
		}
		return status
	}
}

// TestBridgeThreadFails: a thread of req.Go that has failed has the same effect behind an
// http.Handler and middleware as behind a native handler, whichever of them is waiting meanwhile.
func TestBridgeThreadFails(t *testing.T) {
	native := func(req *conn.Request, resp *conn.Response) int {
		c, _ := conn.Value(req, &companionKey)
		resp.WriteString("begun ")
		if req.RawQuery() != "" {
			_ = resp.Flush()
		}
		close(c.fail)
		if err := req.Sleep(time.Hour); !errors.Is(err, loop.ErrCanceled) {
			resp.WriteString(fmt.Sprint("Sleep: ", err))
		}
		resp.WriteString("ended")
		return 200
	}
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := conn.ValueOf(r.Context(), &companionKey)
		io.WriteString(w, "begun ")
		if r.URL.RawQuery != "" {
			w.(http.Flusher).Flush()
		}
		close(c.fail)
		<-r.Context().Done()
		io.WriteString(w, "ended")
	})
	before := func(next http.Handler) http.Handler { // fails before next is called
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := conn.ValueOf(r.Context(), &companionKey)
			if r.URL.RawQuery != "" {
				io.WriteString(w, "begun ")
				w.(http.Flusher).Flush()
			}
			close(c.fail)
			<-c.failed
			next.ServeHTTP(w, r)
		})
	}
	after := func(next http.Handler) http.Handler { // fails in next, and then goes on
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, _ := conn.ValueOf(r.Context(), &companionKey)
			next.ServeHTTP(&statusWriter{ResponseWriter: w}, r)
			<-c.failed
			io.WriteString(w, ".")
		})
	}
	waits := func(req *conn.Request, resp *conn.Response) int {
		if err := req.Sleep(time.Hour); !errors.Is(err, loop.ErrCanceled) {
			resp.WriteString(fmt.Sprint("Sleep: ", err))
		}
		resp.WriteString("ended")
		return 200
	}
	run(t, func(t *testing.T, m mode) {
		for name, row := range map[string]struct {
			h      conn.Handler
			joined string
		}{
			"native":             {native, "200 begun ended"},
			"HTTP":               {conn.HTTP(std), "200 begun ended"},
			"middleware, before": {conn.HTTPMiddleware(before)(waits), "200 ended"},
			"middleware, after":  {conn.HTTPMiddleware(after)(native), "200 begun ended."},
			"both":               {conn.HTTPMiddleware(after)(conn.HTTP(std)), "200 begun ended."},
		} {
			for how, fails := range map[string]func() error{
				"error": func() error { return errors.New("the companion has failed") },
				"panic": func() error { panic("the companion has failed") },
			} {
				t.Run(name+", "+how, func(t *testing.T) {
					s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
						"/": withCompanion(fails, false, row.h), "/joined": withCompanion(fails, true, row.h),
						"/hello": hello,
					})})
					c := s.Dial()
					for path, want := range map[string]string{"/": "500 ", "/joined": row.joined,
						"/hello": "200 Hello, world!"} {
						a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
						got := fmt.Sprint(a.StatusCode, " ", a.Text)
						if !strings.HasPrefix(got, want) || path != "/" && got != want {
							t.Errorf("%s: %q, want %q", path, got, want)
						}
					}
					c.Close()
					c = s.Dial()
					c.Send("GET /?begin=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
					got := rest(t, c)
					if !strings.Contains(got, "begun ") || strings.HasSuffix(got, "\r\n0\r\n\r\n") {
						t.Errorf("begun: %q", got)
					}
					c.Close()
					s.Idle()
				})
			}
		}
	}, direct, modes.HTTP2)
}

// TestThreadFailsBeforeTransfer: after a thread of req.Go has failed, the server still waits for
// the rest of the body, for room, and for the time of MaxRate.
func TestThreadFailsBeforeTransfer(t *testing.T) {
	const size, rate = 1 << 20, 4 << 20
	long := strings.Repeat("0123456789abcdef", size/16)
	first := make(chan struct{}, 1) // sent to when a handler has the first piece of the body
	transfer := func(from io.Reader, to io.Writer) {
		piece := make([]byte, len("first "))
		_, err := io.ReadFull(from, piece)
		first <- struct{}{}
		if err != nil {
			return
		}
		if rest, err := io.ReadAll(from); err == nil {
			_, _ = io.WriteString(to, string(piece)+string(rest)+long)
		}
	}
	native := func(req *conn.Request, resp *conn.Response) int {
		c, _ := conn.Value(req, &companionKey)
		close(c.fail)
		if err := req.Sleep(time.Hour); !errors.Is(err, loop.ErrCanceled) {
			return 418
		}
		transfer(req.Body(), resp)
		return 200
	}
	std := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := conn.ValueOf(r.Context(), &companionKey)
		close(c.fail)
		<-r.Context().Done()
		transfer(r.Body, w)
	}))
	slowly := func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			resp.SetMaxRate(rate)
			return next(req, resp)
		}
	}
	fails := func() error { return errors.New("the companion has failed") }
	run(t, func(t *testing.T, m mode) {
		for name, h := range map[string]conn.Handler{
			"native": native, "native, MaxRate": slowly(native),
			"HTTP": std, "HTTP, MaxRate": slowly(std),
		} {
			t.Run(name, func(t *testing.T) {
				s := start(t, m, conn.Config{Handler: withCompanion(fails, true, h)})
				c := s.Dial()
				c.Send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\nfirst ")
				select {
				case <-first:
				case <-time.After(wait.Patience):
					t.Fatal("the handler reads nothing")
				}
				c.Send("second")
				a := c.Answer("POST")
				if a.StatusCode != 200 || a.Text != "first second"+long {
					t.Errorf("%s, %d bytes", a.Status, len(a.Text))
				}
				c.Close()
				s.Idle()
			})
		}
	}, direct, modes.HTTP2)
}

package conn_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// A budget that is spent ends a wait for the client's body, without harm to the body, and lets the
// handler answer, also with more than the client takes at once.
func TestWithinEndsReadsAndNoWrites(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	run(t, func(t *testing.T, m mode) {
		spent := make(chan bool)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			var first []byte // nothing, if the budget was spent before it had come
			err := req.Within(10*time.Millisecond, func() (err error) {
				first, err = io.ReadAll(req.Body())
				if !errors.Is(err, loop.ErrBudget) {
					t.Errorf("reading: %v", err)
				}
				close(spent)
				resp.WriteString(strings.Repeat("x", size))
				if err := resp.Flush(); err != nil {
					t.Errorf("writing: %v", err)
				}
				return req.Sleep(time.Hour)
			})
			if err != loop.ErrBudget {
				t.Error(err)
			}
			rest, err := io.ReadAll(req.Body())
			if string(first)+string(rest) != "hello" || err != nil {
				t.Errorf("%q, the rest: %q, %v", first, rest, err)
			}
			return 200
		}})
		c := s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2")
		<-spent
		send(t, c, "\r\nlo\r\n0\r\n\r\n")
		if a := c.Answer("POST"); len(a.Text) != size {
			t.Errorf("%d bytes", len(a.Text))
		}
	})
}

// The contexts of functions and of an http.Handler have the deadline.
func TestContextsWithin(t *testing.T) {
	t.Parallel()
	ends := func(t *testing.T, ctx context.Context) {
		if by, ok := ctx.Deadline(); !ok || time.Until(by) > time.Hour+time.Minute {
			t.Errorf("the deadline is %v, %v", by, ok)
		}
	}
	run(t, func(t *testing.T, m mode) {
		h := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ends(t, r.Context())
			io.WriteString(w, "a handler")
		}))
		stopped := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			http.Error(w, context.Cause(r.Context()).Error(), 504)
		}))
		s := start(t, m, conn.Config{Handler: byPath(map[string]conn.Handler{
			"/": func(req *conn.Request, resp *conn.Response) (status int) {
				_ = req.Within(time.Hour, func() error {
					c := conn.Call(req, -1, func(ctx context.Context) (int, error) {
						ends(t, ctx)
						return 0, nil
					})
					if _, err := c.Await(req.Thread, -1); err != nil {
						t.Error(err)
					}
					status = h(req, resp)
					return nil
				})
				return status
			},
			"/stopped": func(req *conn.Request, resp *conn.Response) (status int) {
				_ = req.Within(time.Millisecond, func() error {
					status = stopped(req, resp)
					return nil
				})
				return status
			},
		})})
		c := s.Dial()
		if a := c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != "a handler" {
			t.Errorf("got %d, %q", a.StatusCode, a.Text)
		}
		a := c.Do("GET", "GET /stopped HTTP/1.1\r\nHost: a\r\n\r\n")
		if want := context.DeadlineExceeded.Error() + "\n"; a.StatusCode != 504 || a.Text != want {
			t.Errorf("got %d, %q", a.StatusCode, a.Text)
		}
	})
}

// A connection that a handler has taken over is its client's, too: writes go on.
func TestTakenOverWritesWithin(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	run(t, func(t *testing.T, m mode) {
		spent := make(chan bool)
		s := start(t, m, conn.Config{Handler: func(_ *conn.Request, resp *conn.Response) int {
			c, _, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 500
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			err = conn.HijackedOf(c).Loop().Layer().Current().Within(10*time.Millisecond, func() error {
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, loop.ErrBudget) {
					t.Errorf("reading: %v", err)
				}
				close(spent)
				_, err := io.WriteString(c, strings.Repeat("x", size))
				return err
			})
			if err != nil {
				t.Errorf("writing: %v", err)
			}
			return 0
		}})
		c := s.Dial()
		send(t, c, strings.Replace(upgradeTo, "%s", "/", 1))
		c.Answer("GET")
		<-spent
		if n, err := io.Copy(io.Discard, io.LimitReader(c.R, size)); n != size {
			t.Errorf("%d bytes, %v", n, err)
		}
		c.Close()
	}, handed...)
}

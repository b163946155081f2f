package conn_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
)

// TestNoHijackOfHTTP2: the error of a handler of the loop is the one that code of net/http knows.
func TestNoHijackOfHTTP2(t *testing.T) {
	s := start(t, modes.HTTP2, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
		_, _, err := w.Hijack()
		if !errors.Is(err, http.ErrNotSupported) {
			t.Errorf("Hijack: %v", err)
		}
		return 204
	}})
	if resp, _ := do2(t, client2(t, s), get2(s, "/")); resp.StatusCode != 204 {
		t.Error(resp.Status)
	}
}

// TestFlushBehindDeadline: Flush tells that the write deadline has passed, on the loop and off it.
func TestFlushBehindDeadline(t *testing.T) {
	errs := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "late")
		errs <- c.Flush()
	})
	run(t, func(t *testing.T, m mode) {
		for name, handler := range map[string]conn.Handler{"off": conn.HTTP(h),
			"on": conn.HTTPOnLoop(h)} {
			s := start(t, m, conn.Config{Handler: handler})
			c := s.Dial()
			send(t, c, get)
			if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s the loop: Flush: %v", name, err)
			}
			c.Close()
		}
	}, plain, direct)
}

// TestStragglersHoldUpNothing: the example of docs/write/handlers.md gives its answer when the
// limit has passed, and not when the last thread or function is through, even if that one ignores
// its context.
func TestStragglersHoldUpNothing(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		late, canceled := make(chan error, 1), make(chan error, 1)
		release := make(chan bool)
		returned := make(chan bool)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			thread := func(d time.Duration) *loop.Promise[int] {
				return loop.Go(req.Thread, func(t *loop.Thread) (int, error) {
					err := t.Sleep(d)
					if d > 0 {
						late <- err
					}
					return 1, err
				})
			}
			heeds := conn.Call(req, -1, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				canceled <- context.Cause(ctx)
				return 0, ctx.Err()
			})
			ignores := conn.Call(req, -1, func(ctx context.Context) (int, error) {
				<-release
				close(returned)
				return 2, nil
			})
			values, errs := loop.Collect(req.Thread, time.Millisecond,
				thread(0), thread(time.Hour), heeds, ignores)
			if values[0] != 1 || errs[0] != nil {
				t.Errorf("%v, %v", values, errs)
			}
			for _, err := range errs[1:] {
				if err != loop.ErrDeadlineExceeded {
					t.Errorf("%v", errs)
				}
			}
			return w.Text(200, "all there are")
		}})
		if a := s.Request("GET /", nil, ""); a.Text != "all there are" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
		if err := <-late; !errors.Is(err, context.Canceled) {
			t.Errorf("the thread that is late: %v", err)
		}
		if err := <-canceled; err != context.Canceled {
			t.Errorf("the function that is late: %v", err)
		}
		close(release)
		<-returned
	})
}

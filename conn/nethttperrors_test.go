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

// TestStragglerIsCanceled: the example of docs/write/handlers.md gives its answer when the limit
// has passed, and not when the last thread is through.
func TestStragglerIsCanceled(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		late := make(chan error, 1)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			var asked []*loop.Promise[int]
			for i, d := range []time.Duration{0, time.Hour} {
				asked = append(asked, loop.Go(req.Thread, func(t *loop.Thread) (int, error) {
					err := t.Sleep(d)
					if i == 1 {
						late <- err
					}
					return i + 1, err
				}))
			}
			values, errs := loop.AwaitAll(req.Thread, time.Millisecond, asked...)
			req.Cancel()
			if values[0] != 1 || errs[0] != nil || !errors.Is(errs[1], os.ErrDeadlineExceeded) {
				t.Errorf("%v, %v", values, errs)
			}
			return w.Text(200, "all there are")
		}})
		if a := s.Request("GET /", nil, ""); a.Text != "all there are" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
		if err := <-late; !errors.Is(err, context.Canceled) {
			t.Errorf("the one that is late: %v", err)
		}
	}, plain, direct)
}

package lwango_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

// TestErrors: the errors of waits and bodies are those of this package, and what their comments say
// of the standard library holds.
func TestErrors(t *testing.T) {
	errs := make(chan error, 1)
	handlers := map[string]lwango.Handler{
		"deadline": func(req *lwango.Request, _ *lwango.Response) int {
			errs <- req.Await(time.Millisecond, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			return 200
		},
		"body": func(req *lwango.Request, resp *lwango.Response) int {
			req.Body().SetLimit(1)
			_, err := io.ReadAll(req.Body())
			errs <- err
			return resp.Error(500, err)
		},
		"form": func(req *lwango.Request, resp *lwango.Response) int {
			_, err := req.MultipartForm(1 << 20)
			errs <- err
			return resp.Error(415, err)
		},
		"panic": func(req *lwango.Request, resp *lwango.Response) int {
			_, err := lwango.Await(req, time.Minute, func(context.Context) (int, error) { panic("oh") })
			errs <- err
			return 200
		},
	}
	s := server.Start(t, modes.Direct, conn.Config{
		Handler: func(req *lwango.Request, resp *lwango.Response) int {
			return handlers[strings.Trim(req.Path(), "/")](req, resp)
		}})
	for _, row := range []struct {
		name   string
		is     []error
		status int
	}{
		{"deadline", []error{lwango.ErrDeadlineExceeded, os.ErrDeadlineExceeded,
			context.DeadlineExceeded}, 200},
		{"body", []error{lwango.ErrBodyTooLarge}, 413},
		{"form", []error{lwango.ErrNoForm}, 415},
		{"panic", nil, 200},
	} {
		a := s.Request("POST /"+row.name, []string{"Content-Length: 2"}, "xy")
		err := <-errs
		for _, is := range row.is {
			if !errors.Is(err, is) {
				t.Errorf("%s: %v is not %v", row.name, err, is)
			}
		}
		if _, ok := errors.AsType[*lwango.PanicError](err); ok != (row.name == "panic") {
			t.Errorf("%s: a PanicError: %v", row.name, ok)
		}
		if a.StatusCode != row.status {
			t.Errorf("%s: %s", row.name, a.Status)
		}
	}
	for err, is := range map[error][]error{
		lwango.ErrNoWorker:    {lwango.ErrDeadlineExceeded},
		lwango.ErrBodyTimeout: {lwango.ErrDeadlineExceeded},
		lwango.ErrClientGone:  {context.Canceled},
		lwango.ErrCanceled:    {context.Canceled},
	} {
		for _, is := range is {
			if !errors.Is(err, is) {
				t.Errorf("%v is not %v", err, is)
			}
		}
	}
}

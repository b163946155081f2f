package conn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestAwaitOfAResult: the function's context ends with the wait, whatever ends that, and the error
// says which it was, whoever has seen it first.
func TestAwaitOfAResult(t *testing.T) {
	ended := make(chan error, 1)
	until := func(ctx context.Context) (int, error) { // as a database driver does
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 1, ctx.Err()
	}
	late := func(ctx context.Context) (int, error) { // the wait is over before f returns
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		ended <- context.Cause(ctx)
		return 1, nil
	}
	got := make(chan error, 1)
	errOwn := errors.New("own")
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			limit, f := time.Minute, until
			switch req.Path() {
			case "/value":
				v, err := conn.Await(req, time.Minute, func(ctx context.Context) (string, error) {
					_, ok := ctx.Deadline()
					return fmt.Sprint("v ", ok), ctx.Err()
				})
				return resp.Text(200, fmt.Sprint(v, " ", err))
			case "/unlimited":
				v, err := conn.Await(req, -1, func(ctx context.Context) (string, error) {
					_, ok := ctx.Deadline()
					return fmt.Sprint("v ", ok), errOwn
				})
				return resp.Text(200, fmt.Sprint(v, " ", err))
			case "/panic":
				_, err := conn.Await(req, -1, func(ctx context.Context) (int, error) { panic("x") })
				return resp.Text(200, fmt.Sprint(errors.As(err, new(*loop.PanicError))))
			case "/limit":
				limit = time.Millisecond
			case "/late":
				limit, f = time.Millisecond, late
			case "/leave/late":
				f = late
			}
			n, err := conn.Await(req, limit, f)
			if f := req.Path(); n != 0 && strings.HasSuffix(f, "late") {
				t.Errorf("%s: %d, %v", f, n, err)
			}
			got <- err
			return 200
		}})
		for path, want := range map[string]string{
			"/value": "v true <nil>", "/unlimited": "v false own", "/panic": "true"} {
			if a := s.Request("GET "+path, nil, ""); a.Text != want {
				t.Errorf("%s: %s %q", path, a.Status, a.Text)
			}
		}
		for _, path := range []string{"/limit", "/late"} {
			s.Request("GET "+path, nil, "")
			if err := <-got; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", path, err)
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: the context has not ended", path)
			}
		}
		for _, path := range []string{"/leave", "/leave/late"} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			s.Settled("a function off the loop", func(l *loop.Loop) bool { return l.Stats().Calls > 0 })
			c.Close()
			if err := <-got; !errors.Is(err, loop.ErrClientGone) {
				t.Errorf("%s: %v", path, err)
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: the context has not ended", path)
			}
		}
		s.Idle()
	}, plain, direct)
}

// TestAwaitOfAResultKeepsWaiting: a handler that has chosen to wait on has a function that goes on.
func TestAwaitOfAResultKeepsWaiting(t *testing.T) {
	began, left, got := make(chan bool), make(chan bool), make(chan error, 1)
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		req.KeepWaiting(true)
		_, err := conn.Await(req, -1, func(ctx context.Context) (int, error) {
			began <- true
			<-left
			return 1, ctx.Err()
		})
		got <- err
		return 200
	}})
	c := s.Dial()
	send(t, c, get)
	<-began
	c.Close()
	s.On(func(*loop.Loop) {})
	close(left)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

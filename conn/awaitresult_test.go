package conn_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestAwaitOfAResult: the function's context ends with the wait, whatever ends that, and the error
// says which it was, whoever has seen it first.
func TestAwaitOfAResult(t *testing.T) {
	began, ended, over := make(chan bool, 1), make(chan error, 1), make(chan bool, 1)
	until := func(ctx context.Context) (int, error) { // as a database driver does
		began <- true
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 1, ctx.Err()
	}
	late := func(ctx context.Context) (int, error) { // the wait is over before f returns
		began <- true
		<-ctx.Done()
		<-over
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
			if strings.HasSuffix(req.Path(), "late") {
				over <- true
			}
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
			s.Settled("no function is left", func(l *loop.Loop) bool {
				st := l.Stats()
				return st.Calls+st.Queued == 0
			})
			select {
			case <-began:
				if err := <-ended; err == nil {
					t.Errorf("%s: the context has not ended", path)
				}
			default: // it never has: on a busy machine no worker was there in time
				if path == "/late" {
					<-over
				}
			}
		}
		for _, path := range []string{"/leave", "/leave/late"} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			<-began
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

// TestAwaitOfAResultAtAStop: the stop of a server that cuts a request ends the function's context.
func TestAwaitOfAResultAtAStop(t *testing.T) {
	began, ended := make(chan bool), make(chan error, 1)
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		req.KeepWaiting(req.Path() == "/keep")
		conn.Await(req, -1, func(ctx context.Context) (int, error) {
			began <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return 1, nil
		})
		t.Error("the handler goes on")
		return 200
	}})
	for _, path := range []string{"/", "/keep"} {
		send(t, s.Dial(), "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		<-began
	}
	s.On(func(l *loop.Loop) { l.Stop(0) })
	for range 2 {
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
	}
}

// TestAwaitWithoutHeed: functions that do not heed their contexts hold their workers until they
// return, and are counted; the connection goes on, and a function that finds no worker never runs.
func TestAwaitWithoutHeed(t *testing.T) {
	t.Parallel()
	const workers = loop.DefaultWorkers
	release := make(chan bool)
	ran := make(chan bool, workers+1)
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		target := req.Target()
		_, err := conn.Await(req, 20*time.Millisecond, func(ctx context.Context) (int, error) {
			ran <- true
			<-release
			if req.Target() != target { // no other request has got it
				t.Errorf("%s, %s", req.Target(), target)
			}
			return 1, nil
		})
		return resp.Text(200, fmt.Sprint(errors.Is(err, os.ErrDeadlineExceeded), " ",
			errors.Is(err, loop.ErrNoWorker)))
	}})
	c := s.Dial()
	for i := range workers + 3 {
		want := fmt.Sprint("true ", i >= workers)
		if a := c.Do("GET", fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i)); a.Text != want {
			t.Errorf("%d: %s %q, want %s", i, a.Status, a.Text, want)
		}
	}
	s.Settled("as many functions as workers", func(l *loop.Loop) bool {
		st := l.Stats()
		return st.Calls == workers && st.Queued == 0 && st.NoWorker == 3
	})
	close(release)
	s.Settled("no function", func(l *loop.Loop) bool { return l.Stats().Calls == 0 })
	if len(ran) != workers {
		t.Error(len(ran), "have run")
	}
}

// TestCall: functions that run at the same time, and what ends their contexts.
func TestCall(t *testing.T) {
	began, ended := make(chan bool, 8), make(chan error, 8)
	until := func(ctx context.Context) (int, error) {
		began <- true
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 1, ctx.Err()
	}
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		switch req.Path() {
		case "/all":
			met := make(chan int)
			one := conn.Call(req, time.Minute, func(context.Context) (int, error) { return 1 + <-met, nil })
			two := conn.Call(req, -1, func(context.Context) (int, error) { met <- 2; return 2, nil })
			three := conn.Call(req, -1, func(context.Context) (int, error) { panic("x") })
			err := req.AwaitAll(time.Minute, one, two, three)
			a, _ := one.Value()
			b, _ := two.Value()
			_, failed := three.Value()
			return resp.Text(200, fmt.Sprint(a, b, err, errors.As(failed, new(*loop.PanicError))))
		case "/limit":
			_, err := conn.Call(req, time.Millisecond, until).Await(req.Thread, -1)
			return resp.Text(200, fmt.Sprint(errors.Is(err, os.ErrDeadlineExceeded)))
		case "/queued":
			release := make(chan bool)
			for range loop.DefaultWorkers {
				conn.Call(req, -1, func(context.Context) (int, error) { <-release; return 0, nil })
			}
			p := conn.Call(req, time.Millisecond, until)
			req.Sleep(10 * time.Millisecond)
			close(release)
			_, err := p.Await(req.Thread, -1)
			return resp.Text(200, fmt.Sprint(errors.Is(err, loop.ErrNoWorker)))
		case "/leave":
			p := conn.Call(req, -1, until)
			conn.Call(req, -1, until)
			req.AwaitAll(-1, p)
		default: // it does not wait for what they return
			before := len(began)
			conn.Call(req, time.Minute, until)
			req.KeepWaiting(true)
			conn.Call(req, -1, until)
			for len(began) < before+2 { // a function that has not begun by the end never does
				req.Sleep(time.Millisecond)
			}
		}
		return 200
	}})
	for path, want := range map[string]string{
		"/all": "3 2 <nil> true", "/limit": "true", "/queued": "true", "/": ""} {
		if a := s.Request("GET "+path, nil, ""); a.Text != want {
			t.Errorf("%s: %s %q", path, a.Status, a.Text)
		}
	}
	// On a busy machine, that of /limit may be too late to begin.
	for range len(began) {
		<-began
		if err := <-ended; err == nil {
			t.Error("a context has not ended")
		}
	}
	c := s.Dial()
	send(t, c, "GET /leave HTTP/1.1\r\nHost: a\r\n\r\n")
	s.Settled("two functions", func(l *loop.Loop) bool { return l.Stats().Calls == 2 })
	for range 2 {
		<-began
	}
	c.Close()
	for range 2 {
		if err := <-ended; err != loop.ErrClientGone {
			t.Error(err)
		}
	}
	s.Settled("no function", func(l *loop.Loop) bool { return l.Stats().Calls == 0 })
	if len(ended) > 0 {
		t.Error("the function without a worker has run")
	}
}

// TestCallsOfALongRequest: a request that calls functions for hours does not gather deferred calls.
func TestCallsOfALongRequest(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		one := func(context.Context) (int, error) { return 1, nil }
		mark := req.Thread.Mark()
		for i := range 100 {
			req.KeepWaiting(i%2 == 0)
			if n, err := conn.Call(req, time.Minute, one).Await(req.Thread, -1); n != 1 || err != nil {
				t.Error(n, err)
			}
		}
		return resp.Text(200, fmt.Sprint(req.Thread.Mark()-mark))
	}})
	// One for the calls, and one for those that have had to wait for a worker on a busy machine.
	a := s.Request("GET /", nil, "")
	if n, err := strconv.Atoi(a.Text); err != nil || n > 2 {
		t.Error(a.Status, a.Text, "deferred calls")
	}
}

// TestCallTooLate: a function that waits for a worker while the client leaves never runs.
func TestCallTooLate(t *testing.T) {
	release, got := make(chan bool), make(chan error, 1)
	var asked *conn.Request // of the loop
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		asked = req
		for range loop.DefaultWorkers {
			conn.Call(req, -1, func(context.Context) (int, error) { <-release; return 0, nil })
		}
		late := conn.Call(req, -1, func(context.Context) (int, error) {
			t.Error("the function runs")
			return 0, nil
		})
		req.KeepWaiting(true)
		lasts := conn.Call(req, -1, func(ctx context.Context) (int, error) { return 1, ctx.Err() })
		_, err := late.Await(req.Thread, -1)
		if n, err := lasts.Await(req.Thread, -1); n != 1 || err != nil {
			t.Error(n, err)
		}
		got <- err
		return 200
	}})
	c := s.Dial()
	send(t, c, get)
	s.Settled("two functions that wait", func(l *loop.Loop) bool { return l.Stats().Queued == 2 })
	c.Close()
	s.Settled("the client's end", func(*loop.Loop) bool { return asked.Gone() })
	close(release)
	if err := <-got; err != loop.ErrCanceled {
		t.Error(err)
	}
}

// TestAwaitHasTheValues: the context of a function has the values of the request's.
func TestAwaitHasTheValues(t *testing.T) {
	type key struct{}
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		conn.SetTask(req, context.WithValue(context.Background(), key{}, "v"))
		req.KeepWaiting(req.Path() == "/keep")
		value := func(ctx context.Context) (any, error) { return ctx.Value(key{}), nil }
		a, _ := conn.Await(req, -1, value)
		b, _ := conn.Call(req, -1, value).Await(req.Thread, -1)
		return resp.Text(200, fmt.Sprint(a, " ", b))
	}})
	for _, path := range []string{"/", "/keep"} {
		if a := s.Request("GET "+path, nil, ""); a.Text != "v v" {
			t.Errorf("%s: %q", path, a.Text)
		}
	}
}

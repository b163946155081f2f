package lwangotest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/lwangotest"
)

// news sends two events and, an hour later, another one, and ends.
func news(req *lwango.Request, resp *lwango.Response) int {
	s, err := sse.Open(req, resp)
	if err != nil {
		return 0
	}
	_ = s.Send(sse.Event{ID: "1", Data: []byte("after " + s.LastEventID())})
	_ = s.Send(sse.Event{Name: "weather", Data: []byte("rain\nwind")})
	if req.Path() == "/short" {
		return 0
	}
	if _, err := s.AwaitAny(-1, req.After(time.Hour)); err != nil {
		return 0
	}
	_ = s.Send(sse.Event{ID: "3", Data: []byte("late")})
	return 0
}

// TestEvents: events come one by one, with their names and IDs, to the orderly end; also by HTTP/2.
func TestEvents(t *testing.T) {
	first := []lwangotest.Event{{Data: "after 0"}, {Name: "weather", Data: "rain\nwind"}}
	s := lwangotest.Start(t, news)
	e := s.Events("/", "Last-Event-ID: 0")
	e.Expect(first...)
	s.Advance(time.Hour) // comments, which are no events, may come before it
	if got, want := e.Next(), (lwangotest.Event{ID: "3", Data: "late"}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	e.ExpectEnd()
	e.ExpectEnd()

	s = lwangotest.StartServer(t, lwango.Server{Handler: lwango.Handler(news), TLS: lwangotest.TLS()})
	e = s.Events("/", "Last-Event-ID: 0")
	if e.Response.Proto != "HTTP/2.0" {
		t.Error(e.Response.Proto)
	}
	e.Expect(first...)
}

// TestEventsClose: after Close the handler's waits end.
func TestEventsClose(t *testing.T) {
	left := make(chan error, 1)
	s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
		stream, err := sse.Open(req, resp)
		if err == nil {
			_, err = stream.AwaitAny(-1)
		}
		left <- err
		return 0
	})
	s.Events("/").Close()
	if err := <-left; !errors.Is(err, lwango.ErrClientGone) || !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's wait: %v", err)
	}
}

// TestEventsFail: a failure says what has come, and what was to come.
func TestEventsFail(t *testing.T) {
	on := func(do func(e *lwangotest.Events), path string) func(testing.TB) {
		return func(t testing.TB) { do(lwangotest.Start(t, news).Events(path)) }
	}
	for want, f := range map[string]func(testing.TB){
		`got the event {ID: "1", Name: "", Data: "after "}, want the event {ID: "", Name: "", Data: "x"}`: on(
			func(e *lwangotest.Events) { e.Expect(lwangotest.Event{Data: "x"}) }, "/"),
		`want the event {ID: "2"`: on(func(e *lwangotest.Events) {
			e.Expect(lwangotest.Event{ID: "2", Data: "after "})
		}, "/"),
		"nothing has come within 1ms, want an event": on(func(e *lwangotest.Events) {
			e.Next()
			e.Next()
			e.Patience = time.Millisecond
			e.Next()
		}, "/"),
		"got the end of the stream, want an event": on(func(e *lwangotest.Events) {
			for range 3 {
				e.Next()
			}
		}, "/short"),
		`got the event {ID: "1", Name: "", Data: "after "}, want the end of the stream`: on(
			func(e *lwangotest.Events) { e.ExpectEnd() }, "/short"),
		"got the end of the connection within the stream": func(t testing.TB) {
			lwangotest.Start(t, func(_ *lwango.Request, resp *lwango.Response) int {
				resp.Header().Set("Content-Type", "text/event-stream")
				resp.WriteString("data: cut\n")
				_ = resp.Flush()
				panic(http.ErrAbortHandler)
			}).Events("/").Next()
		},
		`Events /x: 404 Not Found, Content-Type "text/plain": nothing here`: func(t testing.TB) {
			lwangotest.Start(t, func(_ *lwango.Request, resp *lwango.Response) int {
				return resp.Text(404, "nothing here")
			}).Events("/x")
		},
	} {
		if got := fails(t, f); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

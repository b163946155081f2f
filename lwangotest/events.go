package lwangotest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/server"
)

// Event is one that an EventSource would dispatch (WHATWG HTML section 9.2).
type Event struct {
	ID   string // of this event; "": it has none
	Name string // "" stands for "message"
	Data string
}

func (e Event) String() string {
	return fmt.Sprintf("the event {ID: %q, Name: %q, Data: %q}", e.ID, e.Name, server.Clip(e.Data))
}

// Events is a client of an event stream. Its methods are for the goroutine of the test, and fail
// the test with what has come instead of what they wait for.
type Events struct {
	// Patience is how long the methods wait; 10 s. The test may change it at any time.
	Patience time.Duration

	// Response is the answer, whose body belongs to the Events.
	Response *http.Response

	t      testing.TB
	events inbox[happening]
	cancel context.CancelFunc
}

// happening is an event, or why there are no more.
type happening struct {
	event Event
	err   error
}

func (h happening) end() error { return h.err }

func (h happening) String() string {
	switch h.err {
	case nil:
		return h.event.String()
	case io.EOF:
		return "the end of the stream"
	}
	return fmt.Sprintf("the end of the connection within the stream (%v)", h.err)
}

// Events asks for an event stream, and reads it until the test ends. The fields are as for Do, such
// as "Last-Event-ID: 7". The test fails if the answer is not 200 with text/event-stream.
func (s *Server) Events(path string, fields ...string) *Events {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = header(s.t, fields)
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
		req.Header.Del("Host")
	}
	req.Header.Set("Accept", "text/event-stream")
	client := *s.client
	client.Timeout = 0 // the head has a limit, and the stream has none
	late := time.AfterFunc(s.client.Timeout, cancel)
	resp, err := client.Do(req)
	late.Stop()
	if err != nil {
		cancel()
		s.t.Fatalf("Events %s: %v", path, err)
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode != 200 || kind != "text/event-stream" {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		resp.Body.Close()
		cancel()
		s.t.Fatalf("Events %s: %s, Content-Type %q: %s", path, resp.Status, kind, body)
	}
	e := &Events{Patience: patience, Response: resp, t: s.t, cancel: cancel,
		events: newInbox(s.t, happening{err: errClosed})}
	go e.read(ctx)
	s.t.Cleanup(e.Close)
	return e
}

// read passes on the events. A test that takes nothing holds it up, as a slow client.
func (e *Events) read(ctx context.Context) {
	defer close(e.events.come)
	defer e.Response.Body.Close()
	in := bufio.NewReader(e.Response.Body)
	var event Event
	var data []string
	for {
		line, err := in.ReadString('\n')
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		h := happening{err: err}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case err != nil: // an event without its empty line is none
		case line == "":
			event.Data = strings.Join(data, "\n")
			h.event = event
			if none := data == nil; none {
				event = Event{}
				continue
			}
			event, data = Event{}, nil
		case name == "data":
			data = append(data, value)
			continue
		case name == "event":
			event.Name = value
			continue
		case name == "id":
			event.ID = value
			continue
		default: // a comment, or a field that changes no event
			continue
		}
		select {
		case e.events.come <- h:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// Next returns the next event. The test fails if none comes.
func (e *Events) Next() Event {
	e.t.Helper()
	h := e.events.next(e.Patience, "an event")
	if h.err != nil {
		e.t.Fatalf("got %s, want an event", h)
	}
	return h.event
}

// Expect takes the next events. They must be these; where one has no ID here, any is right.
func (e *Events) Expect(events ...Event) {
	e.t.Helper()
	for _, want := range events {
		h := e.events.next(e.Patience, want.String())
		if got := h.event; h.err != nil || got.Name != want.Name || got.Data != want.Data ||
			want.ID != "" && got.ID != want.ID {
			e.t.Fatalf("got %s, want %s", h, want)
		}
	}
}

// ExpectEnd waits for the orderly end of the stream, which must be next.
func (e *Events) ExpectEnd() {
	e.t.Helper()
	if h := e.events.next(e.Patience, "the end of the stream"); h.err != io.EOF {
		e.t.Fatalf("got %s, want the end of the stream", h)
	}
}

// Close leaves, as a browser does that closes the page.
func (e *Events) Close() {
	e.cancel()
	for range e.events.come { // until read has returned
	}
}

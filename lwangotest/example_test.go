package lwangotest_test

import (
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/lwangotest"
)

// greet makes the client wait.
func greet(req *lwango.Request, resp *lwango.Response) int {
	if req.Sleep(time.Hour) != nil {
		return 503
	}
	resp.WriteString("Hello, " + req.Query().Get("name"))
	return 200
}

// A whole server, with TLS; its client speaks HTTP/2.
func ExampleStartServer() {
	examples = append(examples, func(t *testing.T) {
		mux := lwango.NewMux()
		mux.Handle("GET /hello", func(req *lwango.Request, resp *lwango.Response) int {
			return resp.Text(200, "Hello over "+req.Proto())
		})
		s := lwangotest.StartServer(t, lwango.Server{Handler: mux, TLS: lwangotest.TLS()})
		if a := s.Get("/hello"); a.StatusCode != 200 || a.Text != "Hello over HTTP/2.0" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	})
}

// A WebSocket that gives back what it gets.
func ExampleServer_WebSocket() {
	examples = append(examples, func(t *testing.T) {
		s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
			c, err := new(websocket.Upgrader).Upgrade(req, resp)
			for err == nil {
				var kind int
				var data []byte
				if kind, data, err = c.ReadMessage(); err == nil {
					err = c.WriteMessage(kind, data)
				}
			}
			return 0
		})
		w := s.WebSocket("/")
		w.Send("hello")
		w.Expect("hello")
		w.Close()
	})
}

// Events that come an hour apart, in a test that does not take an hour.
func ExampleServer_Events() {
	examples = append(examples, func(t *testing.T) {
		s := lwangotest.Start(t, func(req *lwango.Request, resp *lwango.Response) int {
			stream, err := sse.Open(req, resp)
			for i := 1; err == nil && i <= 2; i++ {
				if err = stream.Send(sse.Event{Name: "tick", Data: []byte(strconv.Itoa(i))}); err == nil {
					_, err = stream.AwaitAny(-1, req.After(time.Hour))
				}
			}
			return 0
		})
		e := s.Events("/")
		e.Expect(lwangotest.Event{Name: "tick", Data: "1"})
		s.Advance(time.Hour)
		e.Expect(lwangotest.Event{Name: "tick", Data: "2"})
		s.Advance(time.Hour)
		e.ExpectEnd()
	})
}

// examples are the tests of the examples that were called.
var examples []func(t *testing.T)

// A unit test of one answer. Handlers may wait and use the loop, as in a server.
func ExampleDo() {
	hello := func(req *lwango.Request, resp *lwango.Response) int {
		if err := req.Sleep(time.Millisecond); err != nil {
			return resp.Error(500, err)
		}
		return resp.Text(200, "Hello, "+req.Query().Get("name"))
	}
	examples = append(examples, func(t *testing.T) {
		a := lwangotest.Do(t, hello, httptest.NewRequest("GET", "/?name=Ann", nil))
		if a.StatusCode != 200 || a.Text != "Hello, Ann" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	})
}

// testGreet stands for TestGreet, in a program's file of tests.
var testGreet func(t *testing.T)

// A handler that waits for an hour, and its test, which does not.
func Example() {
	testGreet = func(t *testing.T) {
		s := lwangotest.Start(t, greet)
		c := s.Dial()
		c.Send("GET /?name=Ann HTTP/1.1\r\nHost: example.org\r\n\r\n")
		s.Advance(time.Hour)
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "Hello, Ann" {
			t.Errorf("%s: %q", a.Status, a.Text)
		}
	}
}

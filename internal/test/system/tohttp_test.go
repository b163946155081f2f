package system_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gorilla "github.com/gorilla/websocket"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestToHTTP: a Mux under net/http waits for functions off the loop, speaks WebSocket, streams
// events and passes requests on to net/http's own handlers.
func TestToHTTP(t *testing.T) {
	native := lwango.NewMux()
	native.Handle("GET /await", func(req *lwango.Request, resp *lwango.Response) int {
		if err := req.Await(wait.Patience, func(context.Context) error { return nil }); err != nil {
			t.Error(err)
		}
		resp.WriteString("awaited")
		return 200
	})
	native.Handle("GET /ws", func(req *lwango.Request, resp *lwango.Response) int {
		c, err := new(websocket.Upgrader).Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		for {
			kind, p, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, p) != nil {
				return 0
			}
		}
	})
	native.Handle("GET /events", func(req *lwango.Request, resp *lwango.Response) int {
		s, err := sse.Open(req, resp)
		if err != nil {
			t.Error(err)
			return 500
		}
		for i := range 3 {
			if err := s.Send(sse.Event{Data: []byte(fmt.Sprint(i))}); err != nil {
				t.Error(err)
			}
		}
		return 200
	})
	native.Handle("GET /std", lwango.HTTP(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "there and back") })))
	s := httptest.NewUnstartedServer(lwango.ToHTTP(native))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	defer s.Close()
	for path, want := range map[string]string{
		"/await": "awaited", "/std": "there and back", "/events": "data: 0\n\ndata: 1\n\ndata: 2\n\n",
	} {
		if got := embedded.Get(t, s.URL+path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	c, resp, err := gorilla.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.URL, "http")+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer c.Close()
	for _, text := range []string{"short", strings.Repeat("long", 10_000)} {
		must.Do(t, c.WriteMessage(gorilla.TextMessage, []byte(text)))
		if _, p, err := c.ReadMessage(); err != nil || string(p) != text {
			t.Errorf("%d bytes came back, %v", len(p), err)
		}
	}
	must.Do(t, c.WriteMessage(gorilla.CloseMessage, gorilla.FormatCloseMessage(1000, "")))
	if _, _, err := c.ReadMessage(); !gorilla.IsCloseError(err, 1000) {
		t.Errorf("at the end: %v", err)
	}
}

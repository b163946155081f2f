package lwangotest_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/lwangotest"
)

// chat answers each message with the same, or as the message says.
func chat(req *lwango.Request, resp *lwango.Response) int {
	up := websocket.Upgrader{Subprotocols: []string{"chat"}}
	c, err := up.Upgrade(req, resp)
	if err != nil {
		return 0
	}
	for {
		kind, data, err := c.ReadMessage()
		if err != nil {
			return 0
		}
		switch string(data) {
		case "close":
			_ = c.Close(4000, "enough")
			return 0
		case "later":
			if c.Thread().Sleep(time.Hour) != nil {
				return 0
			}
		}
		if err := c.WriteMessage(kind, data); err != nil {
			return 0
		}
	}
}

// TestWebSocket: messages and closes go both ways, plain and over TLS, and the clock can be put
// forward while a handler waits.
func TestWebSocket(t *testing.T) {
	whole := func(s lwango.Server) *lwangotest.Server {
		s.Handler = lwango.Handler(chat)
		return lwangotest.StartServer(t, s)
	}
	plain := lwangotest.Start(t, chat)
	secure := whole(lwango.Server{TLS: lwangotest.TLS()})
	clear := whole(lwango.Server{HTTP2: true})
	for name, dial := range map[string]func(path string, fields ...string) *lwangotest.WebSocket{
		"plain": plain.WebSocket, "TLS": secure.WebSocket, "h2c": clear.WebSocket,
		"HTTP/2, TLS": secure.WebSocketHTTP2, "HTTP/2, h2c": clear.WebSocketHTTP2} {
		t.Run(name, func(t *testing.T) {
			w := dial("/", "Sec-WebSocket-Protocol: chat")
			if got := w.Response.Header.Get("Sec-WebSocket-Protocol"); got != "chat" {
				t.Errorf("subprotocol %q", got)
			}
			w.Send("one")
			w.Send("two")
			w.Expect("one", "two")
			w.SendBinary([]byte{0, 255})
			w.ExpectBinary([]byte{0, 255})
			w.Send("three")
			if got := w.Next(); got != "three" {
				t.Errorf("got %q", got)
			}
			w.Send("close")
			if reason := w.ExpectClose(4000); reason != "enough" {
				t.Errorf("reason %q", reason)
			}
			w = dial("/")
			w.Send("dropped by Close")
			w.Close()
			dial("/") // which the end of the test closes
		})
	}
	w := plain.WebSocket("/")
	w.Send("later")
	plain.Advance(time.Hour)
	w.Expect("later")
}

// TestWebSocketFails: a failure says what has come, and what was to come.
func TestWebSocketFails(t *testing.T) {
	for _, row := range []struct {
		want string
		do   func(w *lwangotest.WebSocket)
	}{
		{`got the message "one", want the message "two"`, func(w *lwangotest.WebSocket) {
			w.Send("one")
			w.Expect("two")
		}},
		{`got the binary message "one", want the message "one"`, func(w *lwangotest.WebSocket) {
			w.SendBinary([]byte("one"))
			w.Expect("one")
		}},
		{`got the message "one", want the binary message "one"`, func(w *lwangotest.WebSocket) {
			w.Send("one")
			w.ExpectBinary([]byte("one"))
		}},
		{`nothing has come within 1ms, want the message "two"`, func(w *lwangotest.WebSocket) {
			w.Patience = time.Millisecond
			w.Expect("two")
		}},
		{`got a close with 4000 "enough", want the message "two"`, func(w *lwangotest.WebSocket) {
			w.Send("close")
			w.Expect("two")
		}},
		{`got a close with 4000 "enough", want a close with 1001`, func(w *lwangotest.WebSocket) {
			w.Send("close")
			w.ExpectClose(1001)
		}},
		{`got the message "one", want a close with 1000`, func(w *lwangotest.WebSocket) {
			w.Send("one")
			w.ExpectClose(1000)
		}},
	} {
		got := fails(t, func(t testing.TB) {
			s := lwangotest.Start(t, chat)
			row.do(s.WebSocket("/"))
		})
		if !strings.Contains(got, row.want) {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
	got := fails(t, func(t testing.TB) {
		lwangotest.Start(t, func(_ *lwango.Request, resp *lwango.Response) int {
			return resp.Text(403, "members only")
		}).WebSocket("/refused")
	})
	if want := "WebSocket /refused: 403 Forbidden: members only"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got = fails(t, func(t testing.TB) { lwangotest.Start(t, chat).WebSocketHTTP2("/") })
	if !strings.Contains(got, "StartServer with HTTP2 or TLS") {
		t.Errorf("%q does not tell what is missing", got)
	}
}

// TestWebSocketCut: an end without a close is 1006, and remains the answer to all that follows.
func TestWebSocketCut(t *testing.T) {
	cut := lwango.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := new(gorilla.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		c.NetConn().Close()
	}))
	got := fails(t, func(t testing.TB) {
		w := lwangotest.Start(t, cut).WebSocket("/")
		w.ExpectClose(1006)
		w.Next()
	})
	if want := "got the end of the connection without a close"; !strings.Contains(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

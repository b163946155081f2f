package conn_test

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

// echoMessages is the echo of gorilla's documentation.
func echoMessages(w http.ResponseWriter, r *http.Request) {
	var u websocket.Upgrader
	c, err := u.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	for {
		kind, p, err := c.ReadMessage()
		if err != nil {
			return
		}
		if err := c.WriteMessage(kind, p); err != nil {
			return
		}
	}
}

// webSocket connects to a path.
func webSocket(t *testing.T, s *site, path string) *websocket.Conn {
	t.Helper()
	d := websocket.Dialer{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	scheme := "ws"
	if s.Mode.TLS {
		scheme = "wss"
	}
	c, resp, err := d.Dial(scheme+"://"+s.Addr+path, nil)
	if err != nil {
		t.Fatal(err, resp)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	return c
}

func exchangeMessages(t *testing.T, c *websocket.Conn) {
	t.Helper()
	for _, size := range []int{0, 1, 126, 4096, 70000, 300000} {
		want := strings.Repeat("m", size)
		sent := make(chan error, 1)
		go func() { sent <- c.WriteMessage(websocket.TextMessage, []byte(want)) }()
		_, got, err := c.ReadMessage()
		if err != nil || string(got) != want {
			t.Fatalf("message of %d bytes: %d bytes, %v", size, len(got), err)
		}
		must.Do(t, <-sent)
	}
	_ = c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(1000, ""))
	if _, _, err := c.ReadMessage(); !websocket.IsCloseError(err, 1000) {
		t.Errorf("the end: %v", err)
	}
}

// TestHijackForGorilla: its upgrader works on the bridge.
func TestHijackForGorilla(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(echoMessages))})
		exchangeMessages(t, webSocket(t, s, "/"))
		many := make([]*websocket.Conn, 3)
		for i := range many {
			many[i] = webSocket(t, s, "/")
		}
		for _, c := range many {
			exchangeMessages(t, c)
		}
		// What is no handshake gets gorilla's own answer.
		if a := s.Dial().Do("GET", get); a.StatusCode != http.StatusBadRequest {
			t.Error(a.Status)
		}
	})
}

// TestHijackThroughReverseProxy: a switch of protocols is passed on by the standard library's
// proxy.
func TestHijackThroughReverseProxy(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		for _, mount := range []mount{conn.HTTP, conn.HTTPOnLoop} {
			behind := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(echoMessages))})
			s := start(t, m, conn.Config{Handler: conn.HTTP(proxy(t, m, behind.Addr))})
			exchangeMessages(t, webSocket(t, s, "/"))
		}
	})
}

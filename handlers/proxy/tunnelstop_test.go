package proxy_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestWebSocketAtStop: a stop closes a WebSocket with 1001, which its client sees, and the upstream
// by the client's answer. Both have got whole messages before.
func TestWebSocketAtStop(t *testing.T) {
	proxy.SetCloseWait(t, 2*wait.Patience) // the client has to read all that is under way to it
	for _, m := range []modes.Mode{modes.Direct, modes.OverTLS} {
		for _, busy := range []bool{false, true} {
			name := map[bool]string{false: "idle ", true: "busy "}[busy] + m.Name
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				message := bytes.Repeat([]byte("x"), 300_000) // some of it through a pipe
				ended := make(chan error, 1)
				up := httptest.NewServer(http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						c, err := new(websocket.Upgrader).Upgrade(w, r, nil)
						if err != nil {
							t.Error(err)
							return
						}
						defer c.Close()
						if err := c.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
							t.Error(err)
						}
						go func() {
							for busy && c.WriteMessage(websocket.BinaryMessage, message) == nil {
							}
						}()
						_, _, err = c.ReadMessage()
						ended <- err
					}))
				defer up.Close()
				f := serve(t, m, "/", []string{strings.TrimPrefix(up.URL, "http://")}, nil)
				conn := f.Dial()
				defer conn.Close()
				d := websocket.Dialer{NetDial: func(string, string) (net.Conn, error) {
					return conn.Conn, nil
				}, TLSClientConfig: &tls.Config{}}
				c, _, err := d.Dial("ws://test.example/", nil)
				if err != nil {
					t.Fatal(err)
				}
				for range 20 {
					if _, b, err := c.ReadMessage(); err != nil || len(b) == 0 {
						t.Fatalf("%q, %v", b, err)
					}
					if !busy {
						break
					}
				}
				stopped := make(chan bool)
				go func() { f.Stop(2 * wait.Patience); close(stopped) }()
				var n int
				for err = nil; err == nil; n++ {
					var b []byte
					if _, b, err = c.ReadMessage(); err == nil && !bytes.Equal(b, message) {
						t.Errorf("a message of %d bytes", len(b))
					}
				}
				if !websocket.IsCloseError(err, websocket.CloseGoingAway) {
					t.Errorf("the client, after %d messages: %v", n, err)
				}
				if err := <-ended; !websocket.IsCloseError(err, websocket.CloseGoingAway) {
					t.Errorf("the upstream: %v", err)
				}
				c.Close()
				<-stopped
				if text := f.Log.String() + f.log.String(); text != "" {
					t.Error(text)
				}
			})
		}
	}
}

// TestTunnelsAtStop: what the client gets at a stop, and that nobody who stays silent holds it up.
func TestTunnelsAtStop(t *testing.T) {
	const bye = "\x88\x02\x03\xe9"
	for _, c := range []struct {
		name, protocol, sent, want string
		grace                      time.Duration
	}{
		{"silent client", "WebSocket", "\x81\x01x", "\x81\x01x" + bye, 2 * wait.Patience},
		{"half a frame", "websocket", "\x81\x05x", "\x81\x05x", 50 * time.Millisecond},
		{"half a header", "websocket", "\x81\x7e\x00", "\x81\x7e\x00", 50 * time.Millisecond},
		{"closed", "websocket", bye, bye, 50 * time.Millisecond},
		{"no WebSocket", "other", "\x81\x01x", "\x81\x01x", 50 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fields := "Connection: Upgrade\r\nUpgrade: " + c.protocol + "\r\n\r\n"
			o := start(t, func(p *originConn) {
				p.head()
				p.say("HTTP/1.1 101 Switching Protocols\r\n%s%s", fields, c.sent)
				io.Copy(io.Discard, p.r)
			})
			f := serve(t, modes.Direct, "/", []string{o.addr}, nil)
			client := f.Dial()
			defer client.Close()
			client.Send("GET / HTTP/1.1\r\nHost: a\r\n" + fields)
			if std, err := http.ReadResponse(client.R, nil); err != nil || std.StatusCode != 101 {
				t.Fatal(std, err)
			}
			b := make([]byte, len(c.sent))
			must.Get(io.ReadFull(client.R, b))(t)
			began := time.Now()
			f.Stop(c.grace)
			if d := time.Since(began); d > wait.Patience {
				t.Errorf("the stop took %v", d)
			}
			rest, _ := io.ReadAll(client.R)
			if got := string(b) + string(rest); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

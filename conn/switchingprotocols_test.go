package conn_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestSwitchHasAllFields: what hooks and the configuration add is in the answer that hands the
// connection over, too: in the handler's own 101, in that of another server, and in the 200 that
// HTTP/2 makes of them (RFC 8441 section 5). A field of the handler's own stays as it is.
func TestSwitchHasAllFields(t *testing.T) {
	hooked := func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, w *conn.Response) int {
			w.Layer().BeforeHead(func(_ *conn.Request, w *conn.Response, status int) {
				w.Header().Add("X-Hook", fmt.Sprint(status))
			})
			return next(req, w)
		}
	}
	handlers := map[string]conn.Handler{
		"own": func(_ *conn.Request, w *conn.Response) int {
			w.Header().Set("X-Both", "handler")
			c, _, err := w.Hijack()
			if err != nil {
				return w.Error(500, err)
			}
			fmt.Fprint(c,
				"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
			for name, value := range w.Header().All() {
				fmt.Fprintf(c, "%s: %s\r\n", name, value)
			}
			fmt.Fprint(c, "\r\n")
			return 0
		},
		"relayed": func(_ *conn.Request, w *conn.Response) int {
			w.Layer().Relay(101, "")
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("X-Both", "handler")
			if _, _, err := w.Hijack(); err != nil {
				return w.Error(500, err)
			}
			return 101
		},
	}
	for name, h := range handlers {
		run(t, func(t *testing.T, m mode) {
			s := start(t, m, conn.Config{Handler: hooked(h), Headers: []conn.Field{
				{Name: "X-Configured", Value: "yes"}, {Name: "X-Both", Value: "configured"}}})
			c := s.Dial()
			c.Send(upgrade2)
			std, err := http.ReadResponse(c.R, nil)
			if err != nil {
				t.Fatal(name, err)
			}
			got := [4]string{fmt.Sprint(std.StatusCode), fmt.Sprint(std.Header["X-Hook"]),
				fmt.Sprint(std.Header["X-Configured"]), fmt.Sprint(std.Header["X-Both"])}
			if want := [4]string{"101", "[101]", "[yes]", "[handler]"}; got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
			if m.HTTP2 && len(std.Header["Date"]) != 1 {
				t.Errorf("%s: dates %v", name, std.Header["Date"])
			}
		}, modes.Plain, modes.OverTLS, modes.HTTP2)
	}
}

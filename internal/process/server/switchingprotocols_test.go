package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSwitchingAnswer: the answer that opens a WebSocket has what rules, auth, hsts and [headers]
// add, whether a handler of the program gives it or an upstream.
func TestSwitchingAnswer(t *testing.T) {
	modules := config.Builtin()
	register := func(name string, h conn.Handler) {
		handlers.RegisterModule(modules, name, struct{}{},
			func(struct{}, handlers.Env) (conn.Handler, error) { return h, nil })
	}
	register("socket", func(req *conn.Request, resp *conn.Response) int {
		c, err := new(websocket.Upgrader).Upgrade(req, resp)
		if err != nil {
			return websocket.Status(err)
		}
		_, _, _ = c.ReadMessage()
		return 0
	})
	register("check", func(_ *conn.Request, resp *conn.Response) int {
		resp.Header().Set("Set-Cookie", "seen=1")
		return 204
	})
	p := server.NewProgram(modules)
	upstream, _ := serveProgram(t, p, "[[site]]\n[[site.route]]\nprefix = '/'\nmodule = 'socket'\n")
	address, _ := serveProgram(t, p, fmt.Sprintf(`
[headers]
x-configured = "yes"
[[site]]
[[site.rule]]
set_headers = { X-Rule = "site" }
[[site.route]]
prefix = "/check"
module = "check"
[[site.route]]
prefix = "/own"
module = "socket"
compression = true
auth = { request = "/check", answer_headers = ["Set-Cookie"] }
[[site.route]]
prefix = "/proxied"
module = "proxy"
address = "%s"
compression = true
auth = { request = "/check", answer_headers = ["Set-Cookie"] }
`, upstream))
	for _, path := range []string{"/own", "/proxied"} {
		c := must.Dial(t, "tcp", address)
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", path)
		a := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		got := fmt.Sprint(a.StatusCode, a.Header["X-Configured"], a.Header["X-Rule"],
			a.Header["Set-Cookie"], a.Header["Upgrade"], a.Header["Vary"])
		if want := "101 [yes] [site] [seen=1] [websocket] []"; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
		c.Close()
	}
}

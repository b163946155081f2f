package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

// TestReplacedBody: an upstream gets the body that a middleware of net/http has put in the place of
// the client's, however it comes, and never gets one as whole that has failed. The loop goes on
// while it stalls.
func TestReplacedBody(t *testing.T) {
	modes.Run(t, testReplacedBody, modes.Direct, modes.HTTP2)
}

func testReplacedBody(t *testing.T, m modes.Mode) {
	whole := make(chan string, 2)
	o := start(t, func(p *originConn) {
		for {
			req, err := http.ReadRequest(p.r)
			if err != nil {
				return
			}
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			if req.Method == "POST" {
				whole <- string(body)
			}
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	module.SendReplaced(t, m, "/", whole, func(buffering bool) (conn.Handler, fmt.Stringer) {
		f := serve(t, m, "/", []string{o.addr}, func(s *proxy.Settings) { s.RequestBuffering = buffering })
		return f.handler, f.log
	})
}

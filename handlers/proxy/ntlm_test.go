package proxy_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestLoginOfAConnection: a connection on which a scheme that authenticates it was asked for or
// used serves no other client.
func TestLoginOfAConnection(t *testing.T) {
	for _, c := range []struct {
		request, configured, answer string
		reused                      bool
	}{
		{request: "Authorization: NTLM TlRMTVNTUAAD\r\n"},
		{request: "authorization: negotiate YII=\r\n"},
		{answer: "WWW-Authenticate: Basic realm=\"a\", NTLM\r\n"},
		{answer: "WWW-Authenticate: Basic realm=\"a\"\r\nWww-Authenticate: Negotiate\r\n"},
		{configured: "Negotiate YII="},
		{request: "Authorization: Basic YTpi\r\n", answer: "WWW-Authenticate: Basic realm=\"a\"\r\n",
			reused: true},
	} {
		t.Run(fmt.Sprintf("%q %q %q", c.request, c.configured, c.answer), func(t *testing.T) {
			// The upstream believes what the first request of a connection has said of its user.
			o := start(t, func(p *originConn) {
				user := "nobody"
				for req := p.request(); req != nil && req.URL.Path != last; req = p.request() {
					if a := req.Header.Get("Authorization"); a != "" {
						user = a
					}
					p.say("HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", c.answer, len(user), user)
				}
			})
			f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
				s.IdleTimeout = wait.Patience
				if c.configured != "" {
					s.RequestHeaders = map[string]string{"Authorization": c.configured}
				}
			})
			f.ask("GET /", c.request, "")
			f.get("/")
			f.ask("POST "+last, "", "")
			if n := o.accepted.Load(); (n == 1) != c.reused {
				t.Errorf("%d connections", n)
			}
		})
	}
}

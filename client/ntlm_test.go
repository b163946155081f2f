package client_test

import (
	"bufio"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestLoginOfAConnection: a connection on which a user has logged in, or was asked to, by a scheme
// that authenticates the connection, serves no other request.
func TestLoginOfAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		credentials, challenge string
		reused                 bool
	}{
		"used":  {credentials: "NTLM TlRMTVNTUAAD"},
		"asked": {challenge: "WWW-Authenticate: Negotiate\r\n"},
		"other": {credentials: "Basic YTpi", challenge: "WWW-Authenticate: Basic realm=\"a\"\r\n",
			reused: true},
	} {
		var accepted atomic.Int32
		address, open := script(t, func(nc net.Conn, r *bufio.Reader) {
			accepted.Add(1)
			for c := c; ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				if req.URL.Path == "/last" {
					c.challenge = "Connection: close\r\n"
				}
				answer := "HTTP/1.1 200 OK\r\n" + c.challenge + "Content-Length: 0\r\n\r\n"
				if _, err := nc.Write([]byte(answer)); err != nil || req.Close {
					return
				}
			}
		})
		cl := new(client.Client)
		onThread(t, func(th *loop.Thread) {
			first := &client.Request{URL: "http://" + address}
			if c.credentials != "" {
				first.Header.Set("Authorization", c.credentials)
			}
			for _, r := range []*client.Request{first, {URL: "http://" + address + "/last"}} {
				resp, err := cl.Do(th, wait.Patience, r)
				if err != nil {
					t.Error(name, err)
					return
				}
				resp.Body.Close()
			}
		})
		if n := accepted.Load(); (n == 1) != c.reused {
			t.Errorf("%s: %d connections", name, n)
		}
		wait.Until(t, "the connections are closed", func() bool { return open.Load() == 0 })
	}
}

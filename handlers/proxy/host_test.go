package proxy_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestHost: an upstream gets one Host field, which is valid, though a request of HTTP/1.0 need not
// have one, and though a UNIX socket has no name and the zone of an address is no part of one.
func TestHost(t *testing.T) {
	echo := func(p *originConn) {
		for head := p.head(); head != ""; head = p.head() {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head)
		}
	}
	unix := startAt(t, "unix", t.TempDir()+"/s", echo).addr
	tcp := start(t, echo).addr
	_, port, _ := strings.Cut(startAt(t, "tcp", "[::1]:0", echo).addr, "]:")
	for _, tt := range []struct{ address, rule, head, want string }{
		{unix, "client", "GET / HTTP/1.0\r\n", "localhost"},
		{tcp, "client", "GET / HTTP/1.0\r\n", tcp},
		{"http://" + tcp, "client", "GET / HTTP/1.0\r\n", tcp},
		{unix, "client", "GET / HTTP/1.0\r\nHost: a.example\r\n", "a.example"},
		{unix, "client", "GET http://b.example:81/ HTTP/1.0\r\n", "b.example:81"},
		{unix, "upstream", "GET / HTTP/1.0\r\nHost: a.example\r\n", "localhost"},
		{unix, "c.example", "GET / HTTP/1.0\r\n", "c.example"},
		{"[::1%lo]:" + port, "client", "GET / HTTP/1.0\r\n", "[::1]:" + port},
	} {
		f := serve(t, modes.Direct, "/", []string{tt.address},
			func(s *proxy.Settings) { s.Host = tt.rule })
		c := f.Dial()
		c.Send(tt.head + "\r\n")
		g := read(c.R, "GET")
		if !strings.HasPrefix(g.body, "GET / HTTP/1.1\r\nHost: "+tt.want+"\r\n") ||
			strings.Count(g.body, "\nHost:") != 1 {
			t.Errorf("%+v: %d %v %q", tt, g.status, g.err, g.body)
		}
	}
}

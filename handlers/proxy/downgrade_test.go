package proxy_test

import (
	"io"
	"testing"

	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

// TestDowngrade: whatever a client of HTTP/2 sends, an upstream of HTTP/1.1 gets the request that
// was meant, once, or nothing.
func TestDowngrade(t *testing.T) {
	type request struct{ line, host, body, evil string }
	got := make(chan request, 10)
	o := start(t, func(p *originConn) {
		for req := p.request(); req != nil; req = p.request() {
			body, _ := io.ReadAll(req.Body)
			got <- request{req.Method + " " + req.RequestURI, req.Host, string(body),
				req.Header.Get("Evil") + req.Header.Get("Te")}
			p.say(hello)
		}
	})
	f := serve(t, modes.HTTP2, "/", []string{o.addr}, nil)
	for _, d := range server.Downgrades {
		if status := f.SendDowngrade(d); status != d.Status {
			t.Errorf("%s: %d, want %d", d.Name, status, d.Status)
		}
		want := request{"POST /x.php", "test.example", d.Content, ""}
		switch d.Name {
		case "trailers":
			want.evil = "trailers"
		case "encoded line ends":
			want.line = "POST " + d.Fields[1]
		}
		if d.Status == 200 {
			if r := <-got; r != want {
				t.Errorf("%s: %+v, want %+v", d.Name, r, want)
			}
		}
		f.Settle()
		select {
		case r := <-got:
			t.Errorf("%s: the upstream got %+v", d.Name, r)
		default:
		}
	}
}

package proxy_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
)

// TestCrowdLeavesRoom: a client with many requests has all of max_conns while it is alone. The
// first request of another client is the next that the upstream gets, and those that follow need
// not wait for any of the crowd's.
func TestCrowdLeavesRoom(t *testing.T) {
	const conns, crowd, others = 8, 60, 10
	type asked struct {
		path   string
		answer chan bool
	}
	came := make(chan asked, crowd+others+1)
	o := start(t, func(p *originConn) {
		for req := p.request(); req != nil; req = p.request() {
			a := asked{req.URL.Path, make(chan bool, 1)}
			came <- a
			select {
			case <-a.answer:
			case <-t.Context().Done():
				return
			}
			p.say("%s", hello)
		}
	})
	f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) { s.MaxConns = conns })
	ask := func(from byte, path string) *server.Client {
		c := f.DialBy(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, from)}})
		c.Send("GET " + path + " HTTP/1.1\r\nHost: test.example\r\n\r\n")
		return c
	}
	served := func(c *server.Client) {
		t.Helper()
		if got := read(c.R, http.MethodGet); got.body != "hello" {
			t.Errorf("%+v", got)
		}
	}
	var clients []*server.Client
	for range crowd {
		clients = append(clients, ask(66, "/crowd"))
	}
	var of []asked // the crowd's
	for range conns {
		of = append(of, <-came)
	}
	first := ask(2, "/first")
	f.Settle()
	of[0].answer <- true
	for i := range others {
		want := "/first"
		if i > 0 {
			want = fmt.Sprint("/", i)
			first = ask(byte(2+i%3), want)
		}
		next := <-came
		if next.path != want {
			t.Fatalf("%s comes next, want %s", next.path, want)
		}
		next.answer <- true
		served(first)
	}
	for _, a := range of[1:] {
		a.answer <- true
	}
	for range crowd - conns {
		(<-came).answer <- true
	}
	for _, c := range clients {
		served(c)
	}
}

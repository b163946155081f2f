package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
)

// TestOneAddressLeavesRoom: a client that holds all connections that it gets, none of them idle,
// gets a quarter of them by default. Another address is served.
func TestOneAddressLeavesRoom(t *testing.T) {
	const all = 60
	for configured, want := range map[string]int{"": all / 4, "max_connections_per_address = 20": 20} {
		held, release := make(chan struct{}, all), make(chan struct{})
		p := server.NewProgram(config.Builtin())
		p.Handle("/", func(req *conn.Request, resp *conn.Response) int {
			if req.Path() == "/hold" {
				held <- struct{}{}
				_ = req.Await(-1, func(context.Context) error { <-release; return nil })
			}
			return resp.Text(200, "served")
		})
		address, _ := serveProgram(t, p,
			fmt.Sprintf("threads = 1\nmax_connections = %d\n%s\n", all, configured))
		ask := func(from, path string) net.Conn {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			c := must.Get(d.Dial("tcp", address))(t)
			t.Cleanup(func() { c.Close() })
			fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
			return c
		}
		status := func(c net.Conn) int {
			resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
			return resp.StatusCode
		}
		for range want {
			ask("127.0.0.1", "/hold")
			<-held
		}
		if got := status(ask("127.0.0.1", "/hold")); got != 503 {
			t.Errorf("%q: connection %d of one address gets %d", configured, want+1, got)
		}
		if got := status(ask("127.0.0.2", "/")); got != 200 {
			t.Errorf("%q: another address gets %d", configured, got)
		}
		close(release)
	}
}

package conn_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestLocalAddrIsAskedOnce: the kernel is asked for a connection's local address at its first
// request that wants it, and then no more.
func TestLocalAddrIsAskedOnce(t *testing.T) {
	const clients, kept = 300, 255 // as many addresses as a port keeps
	s, known := start(t, plain, conn.Config{}), make(chan bool, 1)
	bridge := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Context().Value(http.LocalAddrContextKey))
	}))
	s.Configure(conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		known <- conn.LocalKnown(req)
		if req.Path() == "/bridge" {
			return bridge(req, resp)
		}
		return resp.Text(200, req.LocalAddr().String())
	}})
	ports := make(chan uint16)
	l := s.Loops.All[0]
	_ = l.Post(func() {
		defer close(ports)
		fd, err := loop.Listen("tcp", "0.0.0.0:0", false)
		if err == nil {
			_, err = s.Listen(l, conn.Listener{FD: fd})
		}
		if err != nil {
			t.Error(err)
			return
		}
		ports <- loop.LocalAddr(fd).Port()
	})
	port, ok := <-ports
	if !ok {
		return
	}
	to := netip.MustParseAddr("127.0.0.1")
	for i := range clients {
		addr := netip.AddrPortFrom(to, port).String()
		raw := must.Get(net.Dial("tcp", addr))(t)
		r := bufio.NewReader(raw)
		for n, path := range []string{"/bridge", "/", "/bridge"} {
			send(t, raw, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			resp := must.Get(http.ReadResponse(r, nil))(t)
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != addr {
				t.Errorf("%s: %q, %v", addr, text, err)
			}
			if is, want := <-known, n > 0 && i < kept; is != want {
				t.Errorf("address %d, request %d: known %v", i, n, is)
			}
		}
		raw.Close()
		to = to.Next()
	}
}

// TestLocalAddrOfUNIX: there is none, and nobody asks the kernel.
func TestLocalAddrOfUNIX(t *testing.T) {
	h := func(req *conn.Request, resp *conn.Response) int {
		return resp.Text(200, fmt.Sprint(req.LocalAddr().IsValid(), conn.LocalKnown(req)))
	}
	s := start(t, modes.OverUNIX, conn.Config{Handler: h})
	if a := s.Dial().Do("GET", get); a.Text != "false true" {
		t.Errorf("%q", a.Text)
	}
}

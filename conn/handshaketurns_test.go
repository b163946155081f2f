package conn_test

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/slots"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/handshake"
)

// recorded is a ClientHello, as an attacker sends it again and again.
func recorded(t *testing.T) []byte {
	c, peer := net.Pipe()
	defer peer.Close()
	go func() { _ = overTLSTo(c).Handshake() }()
	defer c.Close()
	hello := make([]byte, 16<<10)
	n := must.Get(peer.Read(hello))(t)
	return hello[:n]
}

// by dials from another address.
func by(t *testing.T, addr, address string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := must.Get(d.Dial("tcp", addr))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// TestHandshakesInTurn: a client whose handshakes wait, hundreds of them, holds up another client
// by one of them. The test has the process's slots, so it is alone.
func TestHandshakesInTurn(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: wait.Patience}})
		var mu sync.Mutex
		var order []string // of those whose hellos were looked at
		addr := addTLS(s, func(hello *tls.ClientHelloInfo) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, hello.Conn.RemoteAddr().(*net.TCPAddr).IP.String())
		})
		hello := recorded(t)
		from := func(address string) net.Conn { return by(t, addr, address) }
		waiting := func(n int) {
			t.Helper()
			wait.Until(t, "handshakes wait", func() bool {
				_, waiting := handshake.Slots.Stats()
				return waiting == n
			})
		}
		free := slots.Take(handshake.Slots)
		gone := from("127.0.0.2")
		send(t, gone, string(hello))
		waiting(1)
		must.Do(t, gone.(*net.TCPConn).SetLinger(0))
		gone.Close()
		waiting(0)

		const crowd = 200
		for range crowd {
			send(t, from("127.0.0.2"), string(hello))
		}
		waiting(crowd)
		answered := make(chan error, 1)
		c := tls.Client(from("127.0.0.3"), &tls.Config{InsecureSkipVerify: true})
		go func() { answered <- c.Handshake() }()
		waiting(crowd + 1)
		free()
		must.Do(t, <-answered)
		if a := server.NewClient(t, c).Do("GET", get); a.StatusCode != 200 {
			t.Error(a.Status)
		}
		mu.Lock()
		if at := slices.Index(order, "127.0.0.3"); at > fair.Processors() {
			t.Errorf("%d handshakes of the crowd came before the other client's", at)
		}
		mu.Unlock()
		wait.Until(t, "the crowd is served", func() bool {
			running, waiting := handshake.Slots.Stats()
			return running+waiting == 0
		})

		// The last flight, with a request and the end of the sending half, is no client that leaves.
		g := &gathering{Conn: from("127.0.0.3")}
		last := tls.Client(g, &tls.Config{InsecureSkipVerify: true})
		must.Do(t, last.Handshake())
		free = slots.Take(handshake.Slots)
		send(t, last, get)
		send(t, g.Conn, g.held.String())
		waiting(1)
		_ = g.Conn.(*net.TCPConn).CloseWrite()
		s.Settle()
		free()
		if a := answers(t, last, "GET")[0]; a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}, overTLS)
}

// TestWaitForATurnIsNotTheClients: header_timeout is for what the client does, and not for how long
// its handshake waits for its turn. The test has the process's slots, so it is alone.
func TestWaitForATurnIsNotTheClients(t *testing.T) {
	const limit = wait.Patience
	s := start(t, plain, conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: limit}})
	addr := addTLS(s, func(*tls.ClientHelloInfo) {})
	free := slots.Take(handshake.Slots)
	g := &gathering{Conn: by(t, addr, "127.0.0.3")}
	c := tls.Client(g, &tls.Config{InsecureSkipVerify: true})
	shaken := make(chan error, 1)
	go func() { shaken <- c.Handshake() }()
	wait.Until(t, "it waits", func() bool {
		_, waiting := handshake.Slots.Stats()
		return waiting == 1
	})
	s.Skip(limit * 2 / 3)
	free()
	must.Do(t, <-shaken)
	send(t, c, get)
	s.Skip(limit / 2) // on the client's line
	send(t, g.Conn, g.held.String())
	if a := answers(t, c, "GET")[0]; a.StatusCode != 200 {
		t.Error(a.Status)
	}
}

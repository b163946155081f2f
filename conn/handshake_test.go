package conn_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// addTLS makes s serve TLS at another port of its loop. Each handshake calls hook.
func addTLS(s *site, hook func(*tls.ClientHelloInfo)) (addr string) {
	config := modes.ServerTLS().Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		hook(hello)
		return nil, nil
	}
	return s.AddTLS(config)
}

func dial(t *testing.T, addr string) net.Conn {
	c := must.Dial(t, "tcp", addr)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	return c
}

func overTLSTo(c net.Conn) *tls.Conn { return tls.Client(c, &tls.Config{InsecureSkipVerify: true}) }

// TestHandshakeBesideLoop: what a handshake computes, or waits for in a callback, holds up no other
// connection of the loop.
func TestHandshakeBesideLoop(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		began, gate := make(chan struct{}), make(chan struct{})
		addr := addTLS(s, func(*tls.ClientHelloInfo) { began <- struct{}{}; <-gate })
		const clients = 3
		answered := make(chan error, clients)
		for range clients {
			c := overTLSTo(dial(t, addr))
			go func() {
				_, err := io.WriteString(c, get)
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK")))
				}
				answered <- err
			}()
			<-began
			if a := s.Dial().Do("GET", get); a.StatusCode != 200 {
				t.Errorf("a plain request during a handshake: %s", a.Status)
			}
		}
		close(gate)
		for range clients {
			if err := <-answered; err != nil {
				t.Error(err)
			}
		}
	}, plain, direct)
}

// deaf leaves what comes to others.
type deaf struct {
	net.Conn
	ended chan struct{}
}

func (d deaf) Read([]byte) (int, error) {
	<-d.ended
	return 0, io.EOF
}

// gathering keeps what is written while it gathers.
type gathering struct {
	net.Conn
	gathers bool
	held    bytes.Buffer
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.gathers {
		return g.held.Write(p)
	}
	return g.Conn.Write(p)
}

func (g *gathering) Read(p []byte) (int, error) {
	g.gathers = true // the hello is out
	return g.Conn.Read(p)
}

// TestHandshakeInPieces: the client's flights may come in any pieces, and a request in one piece
// with the end of the handshake, with the end of the connection right behind.
func TestHandshakeInPieces(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: wait.Patience}})
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			config := &tls.Config{InsecureSkipVerify: true, MaxVersion: version}
			slow := tls.Client(&dripping{dial(t, s.Addr), time.Microsecond}, config)
			if a := server.NewClient(t, slow).Do("GET", get); a.StatusCode != 200 {
				t.Errorf("%s, byte by byte: %s", tls.VersionName(version), a.Status)
			}
			if version == tls.VersionTLS12 { // the server has the last word there
				continue
			}
			g := &gathering{Conn: dial(t, s.Addr)}
			c := tls.Client(g, config)
			must.Do(t, c.Handshake())
			send(t, c, get)
			send(t, g.Conn, g.held.String())
			_ = g.Conn.(*net.TCPConn).CloseWrite()
			if a := answers(t, c, "GET")[0]; a.StatusCode != 200 {
				t.Errorf("at once: %s", a.Status)
			}
		}
	}, overTLS)
}

// TestHandshakeFaults: a handshake that does not come to its end holds nothing up, and leaves
// nothing behind.
func TestHandshakeFaults(t *testing.T) {
	t.Parallel()
	waits := func(_ *tls.ClientHelloInfo, gate chan struct{}) { <-gate }
	ends := func(s *site, c net.Conn) {
		if all, err := io.ReadAll(c); len(all) > 0 || err != nil {
			s.T.Errorf("%q, %v, want the end", all, err)
		}
	}
	for name, row := range map[string]struct {
		timeout time.Duration
		hook    func(hello *tls.ClientHelloInfo, gate chan struct{})
		then    func(s *site, c net.Conn) // with the gate closed, once the hook has been called
		log     string
	}{
		"the client leaves": {
			hook: waits,
			then: func(s *site, c net.Conn) { c.Close() },
			log:  "tls handshakes failed",
		},
		"a callback takes too long": {
			timeout: 3 * time.Second, // the hello must come within it, too
			hook:    waits,
			then: func(s *site, c net.Conn) {
				if _, err := c.Read(make([]byte, 1)); err == nil {
					s.T.Error("an answer")
				}
				s.Idle()
			},
			log: "tls handshakes failed",
		},
		"the server stops": {
			hook: waits,
			then: func(s *site, c net.Conn) { s.Stop(0) },
		},
		"a callback waits for its context": {
			timeout: 3 * time.Second,
			hook: func(hello *tls.ClientHelloInfo, _ chan struct{}) {
				<-hello.Context().Done()
			},
			then: func(s *site, c net.Conn) {
				if _, err := c.Read(make([]byte, 1)); err == nil {
					s.T.Error("an answer")
				}
			},
			log: "tls handshakes failed",
		},
		"a callback closes the connection": {
			hook: func(hello *tls.ClientHelloInfo, _ chan struct{}) {
				if err := hello.Conn.SetDeadline(time.Now()); !errors.Is(err, os.ErrNoDeadline) {
					t.Errorf("SetDeadline: %v", err)
				}
				hello.Conn.Close()
			},
			then: func(s *site, c net.Conn) { // what the handshake had to say is sent
				if _, err := io.ReadAll(c); err != nil {
					s.T.Error(err)
				}
			},
			log: "tls handshakes failed",
		},
		"a callback panics": {
			hook: func(*tls.ClientHelloInfo, chan struct{}) { panic("at the disco") },
			then: ends,
			log:  `panic="at the disco" stack="goroutine `,
		},
		"a callback ends its goroutine": {
			hook: func(*tls.ClientHelloInfo, chan struct{}) { runtime.Goexit() },
			then: ends,
			log:  "goroutine ended by runtime.Goexit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, direct,
				conn.Config{Handler: hello, Limits: conn.Limits{HeaderTimeout: row.timeout}})
			if name == "a callback panics" {
				s.Panics.Expect()
			}
			began, gate := make(chan struct{}, 1), make(chan struct{})
			addr := addTLS(s, func(hello *tls.ClientHelloInfo) {
				began <- struct{}{}
				row.hook(hello, gate)
			})
			below := dial(t, addr)
			client := deaf{below, make(chan struct{})}
			gone := make(chan struct{})
			go func() {
				_ = overTLSTo(client).Handshake()
				close(gone)
			}()
			select {
			case <-began:
			case <-time.After(wait.Patience):
				t.Fatal("no handshake has begun")
			}
			row.then(s, below)
			close(gate)
			close(client.ended)
			<-gone
			below.Close()
			wait.Until(t, "no connection left", func() bool { return s.Active() == 0 })
			if log := s.Log.String(); !strings.Contains(log, row.log) || row.log == "" && log != "" {
				t.Errorf("log: %s", log)
			}
		})
	}
}

// TestRefusedCertificate: a client that is refused learns why, also if it is sending already.
func TestRefusedCertificate(t *testing.T) {
	t.Parallel()
	s := start(t, direct, conn.Config{Handler: hello})
	config := modes.ServerTLS().Clone()
	config.ClientAuth = tls.RequireAnyClientCert
	config.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error {
		return errors.New("a stranger")
	}
	g := &gathering{Conn: dial(t, s.AddTLS(config))}
	c := tls.Client(g, &tls.Config{InsecureSkipVerify: true, Certificates: config.Certificates})
	must.Do(t, c.Handshake())
	send(t, c, strings.Repeat("a", 8<<20)) // more than the buffers of both sockets take
	send(t, g.Conn, g.held.String())
	var op *net.OpError
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &op) || op.Op != "remote error" {
		t.Errorf("%v, want an alert", err)
	}
}

package upstream_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/slots"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// serveEach serves connections one after the other until the test ends.
func serveEach(t *testing.T, serve func(c net.Conn)) (address string) {
	t.Helper()
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var running sync.WaitGroup
	running.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			serve(c)
			c.Close()
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return "https://" + ln.Addr().String()
}

// overTLS has a route speak TLS with a configuration.
func overTLS(c *tls.Config) func(*upstream.Settings) {
	return func(s *upstream.Settings) { s.TLS = upstream.SecurityOf(c) }
}

// TestHandshakeBeside: while a handshake computes, the loop does other things.
func TestHandshakeBeside(t *testing.T) {
	for _, alpn := range []string{"http/1.1", "h2"} {
		config := modes.ServerTLS().Clone()
		config.NextProtos = []string{alpn}
		s := startSilent(t, "127.0.0.1:0", config, false)
		var r *route
		verify := func(tls.ConnectionState) error {
			turned := make(chan struct{})
			must.Do(t, r.loops.All[0].Post(func() { close(turned) }))
			select {
			case <-turned:
				return nil
			case <-time.After(wait.Patience / 4):
				return errors.New("the loop does nothing else")
			}
		}
		r = newRoute(t, new(upstream.Pool), []string{"https://" + s.addr}, func(s *upstream.Settings) {
			overTLS(&tls.Config{InsecureSkipVerify: true, VerifyConnection: verify})(s)
			s.HTTP2 = alpn == "h2"
		})
		ended := make(chan error)
		for range 20 {
			r.loops.Go(0, func(th *loop.Thread) {
				l := r.Lease()
				over, _, err := l.Connect(th, upstream.Fresh)
				l.Close(over)
				ended <- err
			})
		}
		for range 20 {
			if err := <-ended; err != nil {
				t.Error(alpn, err)
			}
		}
	}
}

// TestHandshakeFails: what a request is told, and that the upstream is at fault, which loses its
// place.
func TestHandshakeFails(t *testing.T) {
	ca := certs.New(t)
	server := ca.Config("127.0.0.1")
	server.MinVersion = tls.VersionTLS13
	serve := func(c net.Conn) { _ = tls.Server(c, server).Handshake() }
	known, other := x509.NewCertPool(), x509.NewCertPool()
	known.AddCert(ca.Cert())
	served := make(chan net.Conn, 1)
	for _, tt := range []struct {
		name   string
		serve  func(c net.Conn)
		config *tls.Config
		want   string
	}{
		{"unknown authority", serve, &tls.Config{RootCAs: other},
			"certificate signed by unknown authority"},
		{"another version", serve, &tls.Config{RootCAs: known, MaxVersion: tls.VersionTLS12},
			"remote error: tls: protocol version not supported"},
		{"no TLS", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, _ = io.Copy(io.Discard, c)
		}, &tls.Config{RootCAs: known}, "first record does not look like a TLS handshake"},
		{"cut", func(c net.Conn) {
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}, &tls.Config{RootCAs: known}, "EOF"},
		{"hangs", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, &tls.Config{RootCAs: known},
			"timeout"},
		{"cannot be told why", func(c net.Conn) { served <- c; serve(c) },
			&tls.Config{RootCAs: known, VerifyConnection: func(tls.ConnectionState) error {
				c := (<-served).(*net.TCPConn)
				must.Do(t, c.SetLinger(0))
				must.Do(t, c.Close())
				return errors.New("not this one")
			}}, "not this one"},
		{"a panic here", serve, &tls.Config{RootCAs: known,
			VerifyConnection: func(tls.ConnectionState) error { panic("in vain") }}, "in vain"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := new(upstream.Pool)
			r := newRoute(t, pool, []string{serveEach(t, tt.serve)}, func(s *upstream.Settings) {
				overTLS(tt.config)(s)
				if tt.want == "timeout" {
					s.ConnectTimeout = 100 * time.Millisecond
				}
			})
			g := r.get("x")
			if g.err == nil || !strings.HasPrefix(g.err.Error(), "tls handshake: ") ||
				!strings.Contains(g.err.Error(), tt.want) ||
				errors.Is(g.err, os.ErrDeadlineExceeded) != (tt.want == "timeout") {
				t.Error(g.err)
			}
			if upstream.Busy(g.err) || pool.Active() != 0 {
				t.Error("busy, or ", pool.Active(), " slots are taken")
			}
		})
	}
}

// TestHandshakeLeft: threads that are canceled or killed while their handshake computes, or waits
// for its turn, give all back, and no upstream is at fault.
func TestHandshakeLeft(t *testing.T) {
	address := serveEach(t, func(c net.Conn) { _ = tls.Server(c, modes.ServerTLS()).Handshake() })
	for _, computes := range []bool{true, false} {
		for _, kill := range []bool{true, false} {
			computing, goOn := make(chan bool, 1), make(chan bool)
			pool := new(upstream.Pool)
			r := newRoute(t, pool, []string{address}, func(s *upstream.Settings) {
				overTLS(&tls.Config{InsecureSkipVerify: true,
					VerifyConnection: func(tls.ConnectionState) error {
						computing <- true
						<-goOn
						return nil
					}})(s)
				s.ConnectTimeout = wait.Patience
			})
			free := func() {}
			if !computes {
				free = slots.Take(handshake.Slots)
			}
			ended, cancel := make(chan error, 1), make(chan bool, 1)
			r.loops.Go(0, func(th *loop.Thread) {
				th.Go(func(th *loop.Thread) error {
					_, err := r.request(th, "x", true)
					ended <- err
					return nil
				})
				_ = th.Await(wait.Patience, func(context.Context) error { <-cancel; return nil })
				th.Cancel()
			})
			if computes {
				<-computing
			} else {
				wait.Until(t, "it waits", func() bool { _, n := handshake.Slots.Stats(); return n == 1 })
			}
			if kill {
				r.loops.Stop(0)
				cancel <- true
			} else {
				cancel <- true
				if err := <-ended; !errors.Is(err, loop.ErrCanceled) {
					t.Error(err)
				}
			}
			if n := pool.Active(); n != 0 {
				t.Error(n, " slots are taken")
			}
			free()
			close(goOn)
			if taken, waiting := handshake.Slots.Stats(); taken+waiting != 0 {
				t.Errorf("%d compute, %d wait", taken, waiting)
			}
			if got := r.missed(); len(got) > 0 {
				t.Error(got)
			}
		}
	}
}

// TestHandshakeTurn: a request whose handshake has had no turn in time fails for this moment, at
// the first upstream, and nothing is said of that. So does one whose turn has come so late that the
// upstream had less than half of the time.
func TestHandshakeTurn(t *testing.T) {
	t.Run("none", func(t *testing.T) { handshakeTurn(t, 0) })
	t.Run("late", func(t *testing.T) { handshakeTurn(t, 150*time.Millisecond) })
}

func handshakeTurn(t *testing.T, after time.Duration) {
	hang := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	addresses := []string{serveEach(t, hang), serveEach(t, hang)}
	r := newRoute(t, new(upstream.Pool), addresses, func(s *upstream.Settings) {
		overTLS(&tls.Config{InsecureSkipVerify: true})(s)
		s.ConnectTimeout, s.MaxFails = 400*time.Millisecond, 1 // half of it for each
	})
	free := sync.OnceFunc(slots.Take(handshake.Slots))
	done := make(chan got, 1)
	r.ask("x", false, done)
	if after > 0 { // since it waits: its time would not have begun else
		wait.Until(t, "it waits", func() bool {
			_, waiting := handshake.Slots.Stats()
			return waiting == 1 || len(done) == 1
		})
		time.Sleep(after)
		free()
	}
	g := <-done
	free()
	if !upstream.Busy(g.err) || !errors.Is(g.err, handshake.ErrNoSlot) {
		t.Error(g.err)
	}
	if got := r.missed(); len(got) > 0 {
		t.Error(got, " is at fault")
	}
	for _, m := range r.Report() {
		if !m.Up {
			t.Error(m.Address, " is down")
		}
	}
}

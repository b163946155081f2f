package upstream_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// silent2 is a server of HTTP/2 that answers no request.
type silent2 struct {
	addr           string
	accepted, open atomic.Int32
	first          chan net.Conn // gets the first connection, which is not served; nil: it is
}

// startSilent starts one, over TLS with a configuration.
func startSilent(t *testing.T, address string, c *tls.Config, hold bool) *silent2 {
	t.Helper()
	ln := must.Get(net.Listen("tcp", address))(t)
	s := &silent2{addr: ln.Addr().String()}
	if hold {
		s.first = make(chan net.Conn, 1)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for nc, err := ln.Accept(); err == nil; nc, err = ln.Accept() {
			if s.open.Add(1); s.accepted.Add(1) == 1 && hold {
				s.first <- nc
				continue
			}
			running.Go(func() {
				var over net.Conn = nc
				if c != nil {
					over = tls.Server(nc, c)
				}
				_, _ = over.Write(http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 0))
				_, _ = io.Copy(io.Discard, over)
				nc.Close()
				s.open.Add(-1)
			})
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return s
}

// by2 has a route asked by HTTP/2, and keep its connections.
func by2(s *upstream.Settings) { s.HTTP2, s.MaxIdle, s.IdleTimeout = true, 1, wait.Patience }

// TestSessions: requests of a loop share a connection, another loop has another one, and all end
// when their time has come.
func TestSessions(t *testing.T) {
	s := startSilent(t, "127.0.0.1:0", nil, false)
	pool := new(upstream.Pool)
	a, b := newRoute(t, pool, []string{s.addr}, by2), newRoute(t, pool, []string{s.addr}, by2)
	var all sync.WaitGroup
	for _, r := range []*route{a, a, a, b, b, b} {
		all.Add(1)
		r.loops.Go(0, func(th *loop.Thread) {
			defer all.Done()
			l := r.Lease()
			defer l.Release()
			if over, _, err := l.Connect(th, upstream.Reused); err != nil || over != nil || l.Mux() == nil ||
				!l.Connected() {
				t.Error(over, err)
			}
			th.Yield()
		})
	}
	all.Wait()
	wait.Until(t, "2 connections", func() bool { return s.open.Load() == 2 && s.accepted.Load() == 2 })
	if n := pool.Active(); n != 0 {
		t.Error(n, " requests are counted")
	}
	a.loops.Skip(2 * wait.Patience)
	b.loops.Skip(2 * wait.Patience)
	wait.Until(t, "none", func() bool { return s.open.Load() == 0 })
}

// TestSessionOfAName: a connection to an address that a name has left ends.
func TestSessionOfAName(t *testing.T) {
	s := startSilent(t, "127.0.0.1:0", nil, false)
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	pool := new(upstream.Pool)
	_, port, _ := net.SplitHostPort(s.addr)
	r := newRoute(t, pool, []string{"app.test:" + port}, by2)
	connect(t, r.loops, r.Group, nil)
	wait.Until(t, "a connection is accepted", func() bool { return s.open.Load() == 1 })
	names.resolveTo("127.0.0.2")
	pool.LookUp()
	wait.Until(t, "the connection ends", func() bool { return s.open.Load() == 0 })
}

// connect gets a stream on a thread, and gives it back.
func connect(t *testing.T, ls *loops.Loops, g *upstream.Group, begun chan<- bool) (err error) {
	t.Helper()
	done := make(chan error, 1)
	ls.Go(0, func(th *loop.Thread) {
		l := g.Lease()
		defer l.Release()
		if begun != nil {
			begun <- true
		}
		_, _, err := l.Connect(th, upstream.Reused)
		done <- err
	})
	return <-done
}

// TestSessionDialing: what becomes of those that wait for a connection that another request makes,
// while that waits for TLS or for the server's SETTINGS.
func TestSessionDialing(t *testing.T) {
	config := modes.ServerTLS().Clone()
	config.NextProtos = []string{"h2"}
	t.Run("TLS", func(t *testing.T) { testSessionDialing(t, "https://", config) })
	t.Run("SETTINGS", func(t *testing.T) { testSessionDialing(t, "", nil) })
}

func testSessionDialing(t *testing.T, scheme string, config *tls.Config) {
	for name, end := range map[string]func(c net.Conn, th *loop.Thread){
		"the client leaves": func(_ net.Conn, th *loop.Thread) { th.Cancel() }, // another one makes it
		"it fails":          func(c net.Conn, _ *loop.Thread) { c.Close() },    // all fail
	} {
		t.Run(name, func(t *testing.T) {
			s := startSilent(t, "127.0.0.1:0", config, true)
			security := must.Get((&upstream.TLS{Insecure: true}).Load(nil, false))(t)
			r := newRoute(t, new(upstream.Pool), []string{scheme + s.addr}, func(s *upstream.Settings) {
				by2(s)
				s.TLS = security
			})
			first := make(chan error, 1)
			goOn := make(chan net.Conn, 1)
			r.loops.Go(0, func(th *loop.Thread) {
				th.Go(func(th *loop.Thread) error {
					l := r.Lease()
					defer l.Release()
					_, _, err := l.Connect(th, upstream.Reused)
					first <- err
					return nil
				})
				c, _ := loop.Await(th, wait.Patience, func(context.Context) (net.Conn, error) {
					return <-goOn, nil
				})
				end(c, th)
			})
			c := <-s.first
			defer c.Close()
			var others sync.WaitGroup
			begun := make(chan bool)
			for range 3 {
				others.Go(func() {
					err := connect(t, r.loops, r.Group, begun)
					if fails := strings.Contains(name, "fails"); (err != nil) != fails {
						t.Error(err)
					}
				})
				<-begun
			}
			r.loops.Settle()
			goOn <- c
			if err := <-first; err == nil {
				t.Error("the first one has got a connection")
			}
			others.Wait()
			want := int32(2)
			if strings.Contains(name, "fails") {
				want = 1
			}
			if n := s.accepted.Load(); n != want {
				t.Error(n, " connections")
			}
		})
	}
}

// Package server runs a conn.Server for a test, and gives the test its clients.
//
//	server.go         Server: its start and its end
//	client.go         Client: a connection that reads one answer after another
//	example.go        servers for examples
//	over2.go          a client that writes HTTP/1.1 and speaks HTTP/2
//	over2_request.go  requests of the client over2
//	over2_answer.go   answers to the client over2
//	streams.go        many streams of HTTP/2 on one connection
//	downgrade.go      requests of HTTP/2 that must not become ambiguous in HTTP/1.1
//	memory.go         the memory of idle connections and streams
//	stalled.go        the memory of streams whose client reads nothing
package server

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// Server is a server under test, on loops of its own. It stops with the test, which fails if a
// panic was logged that the test does not expect (Panics.Expect).
type Server struct {
	*conn.Server
	*loops.Loops
	Mode modes.Mode
	Addr string          // host:port, or the path of a socket
	Log  *logtext.Buffer // what the server logs, unless the configuration has a logger
	T    testing.TB
}

// Start serves at a free port of the loopback address, or on a UNIX socket, where the mode says so.
func Start(t testing.TB, m modes.Mode, cfg conn.Config) *Server {
	t.Helper()
	s := &Server{Mode: m, Addr: "127.0.0.1:0", Log: new(logtext.Buffer), T: t}
	if m.UNIX {
		// Names of sockets are short. Those of a test's folder are not.
		dir := must.Get(os.MkdirTemp("", "server"))(t)
		t.Cleanup(func() { os.RemoveAll(dir) })
		s.Addr = filepath.Join(dir, "s")
	}
	s.watch(&cfg)
	s.Server = conn.NewServer(cfg)
	s.Loops = loops.Start(t, m, cfg.Logger, func(l *loop.Loop) {
		fd := must.Get(loop.Listen(m.Network(), s.Addr, m.Loops > 1))(t)
		if !m.UNIX {
			s.Addr = loop.LocalAddr(fd).String()
		}
		ln := conn.Listener{FD: fd, HTTP2: m.HTTP2}
		if m.TLS {
			ln.TLS = modes.ServerTLS()
		}
		if m.TLS && m.HTTP2 {
			ln.TLS = ln.TLS.Clone()
			ln.TLS.NextProtos = []string{"h2", "http/1.1"}
		}
		if _, err := s.Listen(l, ln); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { s.Stop(time.Second) })
	return s
}

// AddTLS serves at one address more, with TLS as config says, and returns the address.
func (s *Server) AddTLS(config *tls.Config) (addr string) {
	s.T.Helper()
	s.On(func(l *loop.Loop) {
		fd := must.Get(loop.Listen("tcp", "127.0.0.1:0", false))(s.T)
		addr = loop.LocalAddr(fd).String()
		if _, err := s.Listen(l, conn.Listener{FD: fd, TLS: config}); err != nil {
			s.T.Fatal(err)
		}
	})
	return addr
}

// Configure is that of conn.Server, but that Log has the place of the default logger.
func (s *Server) Configure(cfg conn.Config) {
	s.T.Helper()
	s.watch(&cfg)
	s.Server.Configure(cfg)
}

// watch sets the logger, and lets all clients of a test come from one address.
func (s *Server) watch(cfg *conn.Config) {
	cfg.MaxConnectionsPerAddress = cmp.Or(cfg.MaxConnectionsPerAddress, -1)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(s.Log, nil))
	}
	if s.Loops == nil {
		cfg.Logger, _ = logtext.Watch(s.T, cfg.Logger)
	} else {
		cfg.Logger = s.Panics.Watch(cfg.Logger)
	}
}

// Stop stops the loops and waits for them.
func (s *Server) Stop(grace time.Duration) {
	s.Loops.Stop(grace)
	if n := s.Active(); n != 0 {
		s.T.Errorf("%d connections counted after the stop", n)
	}
}

// Idle waits until no connection is left.
func (s *Server) Idle() {
	s.T.Helper()
	s.Settle() // until then, some may not have been accepted
	s.Settled("no connection left", func(*loop.Loop) bool { return s.Active() == 0 })
}

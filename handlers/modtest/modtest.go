// Package modtest runs a handler behind a real server, on a loop and a socket of its own, for the
// tests of modules.
package modtest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/loop"
)

// Timeout bounds everything a test waits for.
const Timeout = 10 * time.Second

// Run runs a test once for each way of handing over between loop and handlers.
func Run(t *testing.T, test func(t *testing.T, handoff coro.Handoff)) {
	t.Run("channel", func(t *testing.T) { test(t, coro.Channel) })
	t.Run("direct", func(t *testing.T) { test(t, coro.Direct) })
}

// Build makes a handler of a registered module, with settings changed by change, which gets a *S of
// the module's settings type. change may be nil.
func Build[S any](t testing.TB, register func(*handlers.Registry), name string, env handlers.Env,
	change func(*S)) (conn.Handler, error) {
	t.Helper()
	var r handlers.Registry
	register(&r)
	m, ok := r.Module(name)
	if !ok {
		t.Fatalf("no module %s", name)
	}
	settings := m.NewSettings()
	if change != nil {
		change(settings.(*S))
	}
	return m.Build(settings, env)
}

// Server is a running server. It stops with the test.
type Server struct {
	Addr    string
	network string
	t       testing.TB
	tls     bool
	conn    *conn.Server
}

// Active returns how many connections the server has, each of them with its thread.
func (s *Server) Active() int { return s.conn.Active() }

// Start serves h at prefix, through a router, on a free port of the loopback address.
func Start(t testing.TB, prefix string, h conn.Handler, handoff coro.Handoff) *Server {
	t.Helper()
	return start(t, "tcp", "127.0.0.1:0", prefix, h, handoff, nil)
}

// StartUNIX is Start on a UNIX socket, to which Dial connects then.
func StartUNIX(t testing.TB, prefix string, h conn.Handler, handoff coro.Handoff) *Server {
	t.Helper()
	// names of sockets are short, those of a test's folder are not
	dir, err := os.MkdirTemp("", "mod")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return start(t, "unix", dir+"/s", prefix, h, handoff, nil)
}

// StartTLS is Start over TLS, which Dial speaks then.
func StartTLS(t testing.TB, prefix string, h conn.Handler, handoff coro.Handoff) *Server {
	t.Helper()
	std := httptest.NewTLSServer(nil) // its certificate will do
	defer std.Close()
	return start(t, "tcp", "127.0.0.1:0", prefix, h, handoff, std.TLS.Clone())
}

func start(t testing.TB, network, address, prefix string, h conn.Handler, handoff coro.Handoff,
	config *tls.Config) *Server {
	t.Helper()
	routes := []handlers.Route{{Prefix: prefix, Handler: h}}
	router, err := handlers.NewRouter([]handlers.Site{{Routes: routes}})
	if err != nil {
		t.Fatal(err)
	}
	fd, err := loop.Listen(network, address, false)
	if err != nil {
		t.Fatal(err)
	}
	if network != "unix" {
		address = loop.LocalAddr(fd).String()
	}
	quiet := slog.New(slog.DiscardHandler)
	l, err := loop.New(loop.Options{Handoff: handoff, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	server := conn.NewServer(conn.Config{Handler: router.Serve, Logger: quiet})
	if _, err := server.Serve(l, conn.Listener{FD: fd, TLS: config}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Stop(time.Second)
		if err := <-ended; err != nil {
			t.Errorf("loop: %v", err)
		}
	})
	return &Server{Addr: address, network: network, t: t, tls: config != nil, conn: server}
}

// Dial connects to the server.
func (s *Server) Dial() net.Conn {
	s.t.Helper()
	c, err := net.Dial(s.network, s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.tls {
		c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(Timeout))
	return c
}

// Response is an answer with its body read.
type Response struct {
	Status int
	Proto  string
	Header http.Header
	Length int64 // Content-Length, -1 if there is none
	Body   string
}

// Do sends one request, given as its request line and further header lines, with Host and
// "Connection: close" added, and an optional body. It fails the test if there is anything behind
// the answer.
func (s *Server) Do(line string, fields []string, body string) Response {
	s.t.Helper()
	c := s.Dial()
	var wire bytes.Buffer
	wire.WriteString(line + " HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n")
	for _, f := range fields {
		wire.WriteString(f + "\r\n")
	}
	wire.WriteString("\r\n" + body)
	if _, err := c.Write(wire.Bytes()); err != nil {
		s.t.Fatal(err)
	}
	r := bufio.NewReader(c)
	method, _, _ := strings.Cut(line, " ")
	response := s.Read(r, method)
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		s.t.Errorf("%s: behind the answer: %q, %v", line, rest, err)
	}
	return response
}

// Read reads the answer to a request of that method.
func (s *Server) Read(r *bufio.Reader, method string) Response {
	s.t.Helper()
	std, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		s.t.Fatalf("%s: no answer: %v", method, err)
	}
	defer std.Body.Close()
	b, err := io.ReadAll(std.Body)
	if err != nil {
		s.t.Fatalf("%s: body ended early, after %d bytes: %v", method, len(b), err)
	}
	return Response{Status: std.StatusCode, Proto: std.Proto, Header: std.Header,
		Length: std.ContentLength, Body: string(b)}
}

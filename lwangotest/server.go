package lwangotest

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// Server serves until its test ends. Its methods are for the goroutine of the test, except Client,
// Log and the fields, which are for any.
type Server struct {
	URL  string // such as "http://127.0.0.1:40123", without a slash at its end
	Addr string // its host and port, or unix:/path

	// Running is the server that StartServer has started; nil: it is one of Start or StartConfig.
	Running *lwango.Running

	t      testing.TB
	log    *logtext.Buffer
	panics *logtext.Panics
	end    func()
	skip   func(time.Duration)
	tls    *tls.Config // of clients; nil: they speak no TLS
	client *http.Client
	once   sync.Once

	mu    sync.Mutex
	conns []net.Conn // of all clients
}

// Start serves h with the default settings. It fails the test if it cannot.
func Start(t testing.TB, h conn.Handler) *Server {
	t.Helper()
	return StartConfig(t, conn.Config{Handler: h})
}

// StartConfig starts a server with a configuration. Unless cfg has a logger, Log returns the log,
// and a test that fails prints it. A test in which a handler or a thread panics fails, unless it
// calls ExpectPanic.
func StartConfig(t testing.TB, cfg conn.Config) *Server {
	t.Helper()
	inner := server.Start(t, modes.Direct, cfg)
	s := &Server{URL: "http://" + inner.Addr, Addr: inner.Addr, t: t, log: inner.Log,
		panics: inner.Panics, end: func() { inner.Stop(time.Second) }, skip: inner.Skip}
	s.begin(new(http.Transport))
	return s
}

// begin makes the client, by way of tr, and lets the test end the server.
func (s *Server) begin(tr *http.Transport) {
	tr.DialContext, tr.TLSClientConfig = s.dial, s.tls.Clone()
	tr.DisableCompression = true // requests and answers stay unchanged
	s.client = &http.Client{
		Transport: tr,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Timeout: wait.Patience,
	}
	s.t.Cleanup(func() {
		s.Stop()
		if text := s.Log(); s.t.Failed() && text != "" {
			s.t.Logf("the server's log:\n%s", text)
		}
	})
}

// dial connects to the server if the address, host:port, is its own or one of example.com.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	path, local := strings.CutPrefix(s.Addr, "unix:")
	host, _, _ := net.SplitHostPort(address)
	if host == "example.com" || strings.HasSuffix(host, ".example.com") ||
		local && host == "localhost" {
		address = s.Addr
	}
	if local && address == s.Addr {
		network, address = "unix", path
	}
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns = append(s.conns, c)
	}
	return c, err
}

// Stop ends the server before its test ends. Running handlers have a second to return (or the Grace
// of a lwango.Server); after that, their waits do not return.
func (s *Server) Stop() {
	s.once.Do(func() {
		s.client.CloseIdleConnections()
		s.end()
	})
}

// Client returns the client of Get and Do. It keeps its connections, follows no redirects, asks for
// no compression, and waits for a minute at most. It trusts the certificates of the server's TLS.
// URLs with the host example.com, or a name below that, lead to the server, too: so a test chooses
// the name that the server gets by TLS (SNI).
func (s *Server) Client() *http.Client { return s.client }

// Log returns the server's log, in the format of slog.TextHandler.
func (s *Server) Log() string { return s.log.String() }

// ExpectPanic announces that the test makes a handler or a thread panic. The test fails if none
// does.
func (s *Server) ExpectPanic() { s.panics.Expect() }

// Answer is a response, and its body, which has been read to its end.
type Answer struct {
	*http.Response
	Text string
}

// Get sends a GET request for a path, perhaps with a query.
func (s *Server) Get(path string, fields ...string) Answer {
	s.t.Helper()
	return s.Do("GET", path, "", fields...)
}

// Do sends a request and returns the answer. Each field is a header line, such as
// "Accept: text/html"; "Host: example.org" is one, too. It fails the test if there is no complete
// answer.
func (s *Server) Do(method, path, body string, fields ...string) Answer {
	t := s.t
	t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if req.Header = header(t, fields); req.Header.Get("Host") != "" {
		req.Host = req.Header.Get("Host")
		req.Header.Del("Host")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: the answer ends after %d bytes of the body: %v", method, path, len(text),
			err)
	}
	return Answer{resp, string(text)}
}

// header makes a header of lines such as "Accept: text/html".
func header(t testing.TB, fields []string) http.Header {
	t.Helper()
	h := http.Header{}
	for _, field := range fields {
		name, value, ok := strings.Cut(field, ":")
		if !ok {
			t.Fatalf("%q: not a header field; expected something like \"Accept: text/html\"", field)
		}
		h.Add(name, strings.TrimSpace(value))
	}
	return h
}

// Advance waits until all threads of the server wait for input or time, and then puts the clock of
// their loops forward by d. Timers of the loops that are due then fire; the package comment lists
// them.
//
// Requests of Conn.Send, and messages of WebSocket.Send, have reached their handlers before the
// clock moves, except what WebSocketHTTP2 holds back until the server's window opens. Requests that
// another goroutine is sending may not have, and a handler may be about to return from a function
// off the loop.
func (s *Server) Advance(d time.Duration) {
	s.t.Helper()
	s.mu.Lock()
	for _, c := range s.conns {
		acknowledge(c)
	}
	s.mu.Unlock()
	s.skip(d)
}

// acknowledge makes the kernel acknowledge received bytes at once, instead of within 40 ms (tcp(7),
// TCP_QUICKACK). Until then the server would not take the connection for idle.
func acknowledge(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	rc, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Control(func(fd uintptr) {
		// The only error is that of a connection that has ended, which has nothing to acknowledge.
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1)
	})
}

// Conn is a client's connection, for tests that choose each byte that is sent, and when.
type Conn struct {
	net.Conn
	client *server.Client
}

// Dial connects to the server until the test ends, with TLS if the server has that, and speaks
// HTTP/1.1. All reads and writes have to end within a minute.
func (s *Server) Dial() *Conn {
	s.t.Helper()
	c, err := s.dial(context.Background(), "tcp", s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.tls != nil {
		cfg := s.tls.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(s.Addr)
		c = tls.Client(c, cfg)
	}
	s.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	return &Conn{c, server.NewClient(s.t, c)}
}

// Send sends raw bytes: requests, or parts of them.
func (c *Conn) Send(raw string) {
	c.client.T.Helper()
	c.client.Send(raw)
}

// Answer reads one answer to a request of that method. Bytes behind it are for the next Answer, or
// for Rest.
func (c *Conn) Answer(method string) Answer {
	c.client.T.Helper()
	return Answer(c.client.Answer(method))
}

// Read reads what is behind the answers that Answer has read.
func (c *Conn) Read(p []byte) (int, error) { return c.client.R.Read(p) }

// ReadAll reads until the server closes the connection, which it must do in order.
func (c *Conn) ReadAll() string {
	c.client.T.Helper()
	return server.Rest(c.client.T, c)
}

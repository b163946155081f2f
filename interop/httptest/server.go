package httptest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/lwango/lwango"
)

// Server is the standard Server with lwango in the place of net/http. Of Config only Handler and
// BaseContext are used.
type Server struct {
	URL         string
	Listener    net.Listener
	EnableHTTP2 bool
	TLS         *tls.Config
	Config      *http.Server

	client *http.Client
	cert   *x509.Certificate
	stop   context.CancelFunc
	served *lwango.Running
	once   sync.Once
}

// NewServer starts a Server.
func NewServer(h http.Handler) *Server {
	s := NewUnstartedServer(h)
	s.Start()
	return s
}

// NewTLSServer starts a Server that speaks TLS.
func NewTLSServer(h http.Handler) *Server {
	s := NewUnstartedServer(h)
	s.StartTLS()
	return s
}

// NewUnstartedServer makes a Server that can still be configured.
func NewUnstartedServer(h http.Handler) *Server {
	return &Server{Listener: listen(), Config: &http.Server{Handler: h}}
}

func listen() net.Listener {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return ln
}

// Start starts the server.
func (s *Server) Start() {
	s.client = &http.Client{Transport: new(http.Transport)}
	s.start("http://", nil)
}

// StartTLS starts the server with the standard package's certificate, which Client trusts.
func (s *Server) StartTLS() {
	std := httptest.NewUnstartedServer(nil)
	std.TLS = s.TLS
	std.StartTLS()
	s.client, s.cert, s.TLS = std.Client(), std.Certificate(), std.TLS
	std.Close()
	s.start("https://", s.TLS)
}

func (s *Server) start(scheme string, conf *tls.Config) {
	test := caller()
	s.URL = scheme + s.Listener.Addr().String()
	s.serve(conf, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		record(test, "server")
		if base := s.Config.BaseContext; base != nil {
			r = r.WithContext(&valued{r.Context(), base(s.Listener)})
		}
		h := s.Config.Handler
		if h == nil {
			h = http.DefaultServeMux
		}
		h.ServeHTTP(w, r)
	}))
}

// serve begins to serve h. Limits that net/http does not have are off, or as large as its own.
func (s *Server) serve(conf *tls.Config, h http.Handler) {
	ctx, stop := context.WithCancel(context.Background())
	served, err := lwango.Server{
		Listeners:     []lwango.Listener{{Socket: s.Listener, TLS: conf}},
		Handler:       lwango.HTTP(h),
		Threads:       1,
		Limits:        lwango.Limits{MaxHeaderSize: 1 << 20, MaxBodySize: -1, MinRate: -1},
		Grace:         10 * time.Second,
		NoCompression: true,
		Logger:        slog.New(slog.DiscardHandler),
	}.Start(ctx)
	if err != nil {
		panic(err)
	}
	s.served, s.stop = served, stop
}

// Close waits for the requests in flight and stops the server.
func (s *Server) Close() {
	s.once.Do(func() {
		if s.served == nil {
			_ = s.Listener.Close()
			return
		}
		for _, t := range []http.RoundTripper{http.DefaultTransport, s.client.Transport} {
			if t, ok := t.(interface{ CloseIdleConnections() }); ok {
				t.CloseIdleConnections()
			}
		}
		s.stop()
		if err := s.served.Wait(); err != nil {
			panic(err)
		}
	})
}

// CloseClientConnections is called before Close alone, which closes idle connections by itself.
func (s *Server) CloseClientConnections() {}

// Client is a client that trusts the server's certificate.
func (s *Server) Client() *http.Client { return s.client }

// Certificate is the server's certificate, nil if it does not speak TLS.
func (s *Server) Certificate() *x509.Certificate { return s.cert }

// valued is a context with the values of a second one, which go first.
type valued struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (c *valued) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

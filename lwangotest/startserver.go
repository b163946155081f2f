package lwangotest

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
)

// StartServer starts a whole server, as lwango.Server.Start does: with its configuration, sites,
// middleware, TLS and HTTP/2. It fails the test if it cannot.
//
//	s := lwangotest.StartServer(t, lwango.Server{Handler: mux, TLS: lwangotest.TLS()})
//	a := s.Get("/") // over HTTP/2
//
// Without Addr and Listeners, it listens at a free port of 127.0.0.1, also in the place of the
// listeners of a configuration. Threads is 1 by default, Grace a second, and one client may have
// any number of connections. The log, and panics, are as those of StartConfig. The test fails if
// Wait returns an error.
//
// The client of the Server asks the first address. It trusts the certificates of its TLS, which
// must be for 127.0.0.1, and speaks HTTP/2 if the server offers that: over TLS, or by HTTP2.
func StartServer(t testing.TB, cfg lwango.Server) *Server {
	t.Helper()
	s := &Server{t: t, log: new(logtext.Buffer)}
	if cfg = completed(cfg); cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(s.log, nil))
	}
	cfg.Logger, s.panics = logtext.Watch(t, cfg.Logger)
	ctx, cancel := context.WithCancel(context.Background())
	running, err := cfg.Start(server.WithLoops(ctx, func(all []*loop.Loop) {
		s.skip = func(d time.Duration) { loops.Skip(t, d, all...) }
	}))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s.Running, s.Addr = running, running.Addrs()[0]
	s.end = func() {
		cancel()
		if err := running.Wait(); err != nil {
			t.Errorf("the server's end: %v", err)
		}
	}
	first := lwango.Listener{TLS: cfg.TLS, HTTP2: cfg.HTTP2}
	if cfg.Addr == "" && cfg.TLS == nil {
		first = cfg.Listeners[0]
	}
	scheme, host, tr := "http", s.Addr, new(http.Transport)
	if strings.HasPrefix(s.Addr, "unix:") {
		host = "localhost"
	}
	if first.TLS != nil {
		scheme, tr.ForceAttemptHTTP2 = "https", true
		s.tls = &tls.Config{RootCAs: x509.NewCertPool()}
		for _, c := range first.TLS.Certificates {
			if leaf, err := x509.ParseCertificate(c.Certificate[0]); err == nil {
				s.tls.RootCAs.AddCert(leaf)
			}
		}
	} else if first.HTTP2 {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
	}
	s.URL = scheme + "://" + host
	s.begin(tr)
	return s
}

// Reload puts next into force, as lwango.Running.Reload, with the defaults of StartServer. The
// address stays the same. The Server is one of StartServer.
func (s *Server) Reload(next lwango.Server) error {
	s.t.Helper()
	if s.Running == nil {
		s.t.Fatal("Reload: the Server is none of StartServer")
	}
	return s.Running.Reload(completed(next))
}

// completed returns cfg with the defaults of tests.
func completed(cfg lwango.Server) lwango.Server {
	if len(cfg.Listeners) == 0 {
		cfg.Addr = cmp.Or(cfg.Addr, "127.0.0.1:0")
	}
	cfg.Threads = cmp.Or(cfg.Threads, 1)
	cfg.Grace = cmp.Or(cfg.Grace, time.Second)
	cfg.MaxConnectionsPerAddress = cmp.Or(cfg.MaxConnectionsPerAddress, -1)
	return cfg
}

// TLS returns settings for the TLS of a server under test. Their certificate was made for this
// process, and is for 127.0.0.1, ::1, localhost, example.com and the names below that; the clients
// of StartServer trust it. The caller may change what TLS returns.
func TLS() *tls.Config { return certificate().Clone() }

var certificate = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "lwangotest"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		DNSNames:     []string{"localhost", "example.com", "*.example.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
})

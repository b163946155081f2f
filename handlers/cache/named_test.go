package cache_test

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestCertificates: a page that may be for the client whom a certificate names, verified or not, is
// kept if the key has that, or for clients without one.
func TestCertificates(t *testing.T) {
	ca := certs.New(t)
	a, b := ca.Issue(time.Hour, "a"), ca.Issue(time.Hour, "b")
	for _, tt := range []struct {
		key    string
		proved bool
		want   string // of a's, b's, and a's second request
	}{
		{"", true, "a1 b2 a3"},
		{"{uri} {cert_subject}", true, "a1 b2 a1"},
		{"{uri} {cert_verify}{cert_issuer}", true, "a1 b2 a3"}, // many clients have the same
		{"", false, "a1 b2 a3"},
	} {
		var n atomic.Int32
		s := start(t, modes.Direct, cache.Settings{Key: tt.key},
			func(req *conn.Request, w *conn.Response) int {
				fields(w, "Cache-Control: max-age=100")
				return w.Text(200, fmt.Sprint(req.TLS().PeerCertificates[0].Subject.CommonName, n.Add(1)))
			})
		config := modes.ServerTLS().Clone()
		config.ClientAuth = tls.RequireAnyClientCert
		if tt.proved {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, ca.Pool
		}
		addr := s.AddTLS(config)
		ask := func(who tls.Certificate) string {
			c := tls.Client(must.Dial(t, "tcp", addr),
				&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{who}})
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			return server.NewClient(t, c).Do("GET", "GET / HTTP/1.1\r\nHost: test.example\r\n\r\n").Text
		}
		if got := ask(a) + " " + ask(b) + " " + ask(a); got != tt.want {
			t.Errorf("key %q, %v: %s, want %s", tt.key, tt.proved, got, tt.want)
		}
	}
}

// TestValidatedForOthersAlone: an answer for another one, which a request has waited for, says
// nothing of what is kept.
func TestValidatedForOthersAlone(t *testing.T) {
	goOn := new(loop.Promise[struct{}])
	o := &origin{answer: func(n int32, req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=10", `ETag: "v1"`)
		if n > 1 {
			w.Header().Set("ETag", fmt.Sprintf(`"v%d"`, n))
			fields(w, "Vary: X-Mode")
		}
		if n == 2 {
			if _, err := goOn.Await(req.Thread, wait.Patience); err != nil {
				return 500
			}
		}
		return w.Text(200, fmt.Sprint(req.Header().Get("X-Mode"), n))
	}}
	s := start(t, modes.Several, cache.Settings{}, o.serve)
	get(t, s, "/")
	s.Skip(20 * time.Second)
	first, second := s.Dial(), s.Dial()
	first.Send("GET / HTTP/1.1\r\nHost: test.example\r\nX-Mode: a\r\n\r\n")
	wait.Until(t, "the first request", func() bool { return o.n.Load() == 2 })
	second.Send("GET / HTTP/1.1\r\nHost: test.example\r\nX-Mode: b\r\n\r\n")
	s.Settle()
	goOn.Resolve(struct{}{})
	for i, c := range []*client{{first}, {second}} {
		if text, err := c.read(); err != nil || text != []string{"a2", "b3"}[i] {
			t.Errorf("client %d: %s, %v", i, text, err)
		}
	}
}

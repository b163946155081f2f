package upstream_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// BenchmarkHandshake: a connection to a server with TLS in the same process, whose part is in the
// figure. The difference between the two is what a session spares both.
func BenchmarkHandshake(b *testing.B) {
	ca := certs.New(b)
	for _, resumed := range []bool{false, true} {
		name := "full"
		if resumed {
			name = "resumed"
		}
		b.Run(name, func(b *testing.B) {
			o := httptest.NewUnstartedServer(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
			o.TLS = &tls.Config{SessionTicketsDisabled: !resumed,
				Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")}}
			o.StartTLS()
			defer o.Close()
			security := must.Get((&upstream.TLS{CA: ca.File}).Load(filepath.Clean, false))(b)
			g := must.Get(new(upstream.Pool).Group(upstream.Settings{Addresses: []string{o.URL},
				TLS: security, QueueTimeout: time.Minute, ConnectTimeout: time.Minute}))(b)
			l := loops.Start(b, modes.Direct, nil, nil)
			done := make(chan error)
			b.ReportAllocs()
			for b.Loop() {
				l.Go(0, func(t *loop.Thread) {
					lease := g.Lease()
					s, _, err := lease.Connect(t, upstream.Reused)
					if err == nil {
						over := lease.Transport(s)
						io.WriteString(over, "GET / HTTP/1.0\r\n\r\n")
						_, err = io.Copy(io.Discard, over)
					}
					lease.Close(s)
					done <- err
				})
				must.Do(b, <-done)
			}
		})
	}
}

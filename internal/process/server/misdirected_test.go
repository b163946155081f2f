package server_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
)

// TestMisdirected: a client of HTTP/2 that asks, on one connection, for a host whose certificate is
// another one than it was shown gets 421. What is the same by any connection is answered.
func TestMisdirected(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test *.a.test", 24*time.Hour)
		s.put("b", "b.test", 24*time.Hour)
	}, "http2 = true\n"+`tls = [{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}]`)
	for sni, hosts := range map[string]map[string]int{
		"a.test": {"a.test": 200, "www.a.test:443": 200, "b.test": 421, "b.test:8443": 421, "c.test": 200,
			"127.0.0.1": 200},
		"b.test": {"b.test": 200, "a.test": 421},
		"c.test": {"a.test": 200, "b.test": 421, "c.test": 200}, // it is shown the first certificate
	} {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP2(true)
		tr.DialTLSContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			d := tls.Dialer{Config: &tls.Config{ServerName: sni, InsecureSkipVerify: true,
				NextProtos: []string{"h2"}}}
			return d.DialContext(ctx, network, s.at)
		}
		for host, want := range hosts {
			req := must.Get(http.NewRequest("GET", "https://x/", nil))(t)
			req.Host = host
			resp, err := (&http.Client{Transport: tr}).Do(req)
			if err != nil {
				t.Fatal(sni, host, err)
			}
			resp.Body.Close()
			if resp.StatusCode != want || resp.ProtoMajor != 2 {
				t.Errorf("%s on a connection for %s: %s %s, want %d", host, sni, resp.Proto, resp.Status, want)
			}
		}
		tr.CloseIdleConnections()
	}
}

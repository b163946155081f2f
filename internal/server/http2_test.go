package server_test

import (
	"crypto/tls"
	"testing"
	"time"
)

// TestHTTP2ByDefault: over TLS, clients that speak HTTP/2 get it, unless the listener has it off.
func TestHTTP2ByDefault(t *testing.T) {
	for keys, want := range map[string]string{"": "h2", "http2 = true\n": "h2", "http2 = false\n": "http/1.1"} {
		s := startTLS(t, func(s *tlsServer) {
			s.put("a", "a.test", 24*time.Hour)
		}, keys+`tls = [{cert = "a.pem", key = "a.key"}]`)
		c, err := tls.Dial("tcp", s.at, &tls.Config{RootCAs: s.ca.Pool, ServerName: "a.test",
			NextProtos: []string{"http/1.1", "h2"}}) // the server's order counts
		if err != nil {
			t.Fatal(err)
		}
		if got := c.ConnectionState().NegotiatedProtocol; got != want {
			t.Errorf("%q: %s, want %s", keys, got, want)
		}
		c.Close()
	}
}

package server_test

import (
	"crypto/tls"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
)

// TestHTTP2ByDefault: over TLS, clients that speak HTTP/2 get it, unless the listener has it off.
func TestHTTP2ByDefault(t *testing.T) {
	for keys, want := range map[string]string{"": "h2", "http2 = true\n": "h2",
		"http2 = false\n": "http/1.1"} {
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

// TestReloadHTTP2: a reload begins and ends HTTP/2 at a listener, and its answers have all fields.
func TestReloadHTTP2(t *testing.T) {
	const certs = `tls = [{cert = "a.pem", key = "a.key"}]`
	s := startTLS(t, func(s *tlsServer) { s.put("a", "a.test", 24*time.Hour) },
		"http2 = false\n"+certs)
	for keys, want := range map[string]string{"http2 = true\n": "HTTP/2.0",
		"http2 = false\n": "HTTP/1.1"} {
		s.reload("threads = 3\n[headers]\nserver = 'x'\n[[listener]]\naddress = \"127.0.0.1:0\"\n" +
			keys + certs + "\n" + route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
		tr := &http.Transport{ForceAttemptHTTP2: true,
			TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool, ServerName: "a.test"}}
		resp := must.Get((&http.Client{Transport: tr}).Get("https://" + s.Addresses()[0]))(t)
		resp.Body.Close()
		tr.CloseIdleConnections()
		if resp.Proto != want || resp.Header.Get("Date") == "" || resp.Header.Get("Server") != "x" {
			t.Errorf("%q: %s %v, want %s with Date and Server", keys, resp.Proto, resp.Header, want)
		}
	}
}

package server_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestClientCRLEnds: once a certificate of a client was revoked, the connections of the listener
// end. They stay where the lists are only newer.
func TestClientCRLEnds(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(s *tlsServer, text string){
		"look":   func(s *tlsServer, _ string) { s.RenewCerts(time.Now()) },
		"reload": func(s *tlsServer, text string) { s.reload(text) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTLS(t)
			s.put("a", "a.test", time.Hour)
			s.replace("ca.pem", must.Read(t, s.ca.File))
			list := func(revoked ...*x509.Certificate) {
				s.replace("crl.pem", string(s.ca.List(time.Now().Add(time.Hour), nil, revoked...)))
			}
			list()
			text := "keep_alive_timeout = \"1h\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n" +
				"tls = {cert = \"a.pem\", key = \"a.key\"}\nclient_ca = \"ca.pem\"\nclient_crl = " +
				"\"crl.pem\"\n" +
				route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n")
			s.running = serve(t, s.source(), text)
			own := s.ca.Issue(time.Hour, "client.test")
			c := must.Get(tls.Dial("tcp", s.at, &tls.Config{RootCAs: s.ca.Pool, ServerName: "a.test",
				Certificates: []tls.Certificate{own}}))(t)
			defer c.Close()
			must.Do(t, c.SetDeadline(time.Now().Add(wait.Patience)))
			in := bufio.NewReader(c)
			ask := func() {
				t.Helper()
				must.Get(io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"))(t)
				resp := must.Get(http.ReadResponse(in, nil))(t)
				if body, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(body) != "x" {
					t.Error(resp.StatusCode, body, err)
				}
			}
			ask()
			list()
			again(s, text)
			ask()
			list(certs.Leaf(own))
			again(s, text)
			if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
				t.Errorf("%q, %v", rest, err)
			}
		})
	}
}

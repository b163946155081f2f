package server_test

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// clientSites are sites a.test, with the given keys about clients, and free.test; a.test answers
// with what is known of the client's certificate, and its path /ann is for one subject.
func clientSites(keys string) string {
	return siteConfig("tls = true\nhttp2 = true",
		site("free.test", pairOf("free")),
		"[[site]]\nhost = \"a.test\"\n"+pairOf("a")+"\n"+keys+`
[[site.rule]]
set_headers = { x-verify = "{cert_verify}", x-subject = "{cert_subject}", x-print = "{cert_fingerprint}" }
[[site.rule]]
path = "/ann"
not = { cert_verify = "SUCCESS", cert_subject = "CN=ann" }
deny = 404
[[site.rule]]
path = "/failed"
cert_verify = "FAILED:*"
deny = 410
[[site.route]]
prefix = "/"
module = "response"
body = "a"
`)
}

func startClientSites(t *testing.T, keys string) *tlsServer {
	t.Helper()
	s := newTLS(t)
	s.put("a", "a.test", time.Hour)
	s.put("free", "free.test", time.Hour)
	s.replace("ca.pem", must.Read(t, s.ca.File))
	s.running = serve(t, s.source(), clientSites(keys))
	return s
}

// tlsClient is a connection with HTTP/1.1.
type tlsClient struct {
	t *testing.T
	*tls.Conn
	in *bufio.Reader
}

func (s *tlsServer) client(sni string, sessions tls.ClientSessionCache,
	own ...tls.Certificate) (*tlsClient, error) {
	c, err := tls.Dial("tcp", s.at, &tls.Config{RootCAs: s.ca.Pool, ServerName: sni,
		ClientSessionCache: sessions,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(own) > 0 { // even if it is of no authority that the server names
				return &own[0], nil
			}
			return new(tls.Certificate), nil
		}})
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { c.Close() })
	must.Do(s.t, c.SetDeadline(time.Now().Add(wait.Patience)))
	return &tlsClient{s.t, c, bufio.NewReader(c)}, nil
}

// ask returns the status, and what the answer has of the client's certificate.
func (c *tlsClient) ask(host, path string) (status int, verify, subject, print string, err error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
		return 0, "", "", "", err
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return 0, "", "", "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	h := resp.Header
	return resp.StatusCode, h.Get("X-Verify"), h.Get("X-Subject"), h.Get("X-Print"), err
}

// TestSiteClients: a site asks for a certificate in handshakes with its SNI only, and says of it
// what its mode lets it.
func TestSiteClients(t *testing.T) {
	ca := `client_ca = "ca.pem"` + "\n"
	for _, row := range []struct {
		mode, own string // ann, old, strange, none
		want      string // "": no handshake
	}{
		{"", "ann", "200 SUCCESS CN=ann print"},
		{"require", "ann", "200 SUCCESS CN=ann print"},
		{"require", "none", ""},
		{"require", "strange", ""},
		{"require", "old", ""},
		{"optional", "ann", "200 SUCCESS CN=ann print"},
		{"optional", "none", "200 NONE  "},
		{"optional", "strange", ""},
		{"any", "ann", "200 SUCCESS CN=ann print"},
		{"any", "none", "200 NONE  "},
		{"any", "strange", "200 FAILED:unknown authority  print"},
		{"any", "old", "200 FAILED:expired or not yet valid  print"},
	} {
		t.Run(row.mode+" "+row.own, func(t *testing.T) {
			keys := ca
			if row.mode != "" {
				keys += "client_cert = \"" + row.mode + "\"\n"
			}
			s := startClientSites(t, keys)
			var own []tls.Certificate
			switch row.own {
			case "ann":
				own = append(own, s.ca.Issue(time.Hour, "ann"))
			case "old":
				own = append(own, s.ca.Issue(-time.Minute, "ann"))
			case "strange":
				own = append(own, certs.New(t).Issue(time.Hour, "ann"))
			}
			got := ""
			c, err := s.client("a.test", nil, own...)
			var denied, failed int
			if err == nil {
				var status int
				var verify, subject, print string
				status, verify, subject, print, err = c.ask("a.test", "/")
				if len(own) > 0 && print == fingerprint(own[0]) {
					print = "print"
				}
				if err == nil {
					got = strings.Join([]string{fmt.Sprint(status), verify, subject, print}, " ")
					denied, _, _, _, _ = c.ask("a.test", "/ann")
					failed, _, _, _, _ = c.ask("a.test", "/failed")
				}
			}
			if got != row.want {
				t.Errorf("%q, %v, want %q", got, err, row.want)
			}
			if row.want == "" {
				return
			}
			if want := map[bool]int{true: 200, false: 404}[row.own == "ann"]; denied != want {
				t.Errorf("a route for ann: %d, want %d", denied, want)
			}
			if want := map[bool]int{true: 410, false: 200}[strings.Contains(row.want, "FAILED")]; failed != want {
				t.Errorf("a rule for what has failed: %d, want %d", failed, want)
			}
			// The other site does not ask, and its connections do not lead to this one.
			free, err := s.client("free.test", nil, own...)
			if err != nil {
				t.Fatal(err)
			}
			for host, want := range map[string]int{"free.test": 200, "a.test": 421, "A.TEST:443": 421} {
				if status, _, _, _, err := free.ask(host, "/"); status != want || err != nil {
					t.Errorf("%s by a connection for free.test: %d, %v, want %d", host, status, err, want)
				}
			}
			if status, _, _, _, err := c.ask("free.test", "/"); status != 200 || err != nil {
				t.Errorf("free.test by a connection for a.test: %d, %v", status, err)
			}
		})
	}
}

func fingerprint(c tls.Certificate) string {
	sum := sha256.Sum256(c.Certificate[0])
	return hex.EncodeToString(sum[:])
}

// TestSiteClientsSessions: a session of one site, with its client's certificate, opens no other
// site, whose authorities are others; and a session goes on at its own site.
func TestSiteClientsSessions(t *testing.T) {
	s := newTLS(t)
	other := certs.New(t)
	for _, name := range []string{"a", "b"} {
		s.put(name, name+".test", time.Hour)
	}
	s.replace("a-ca.pem", must.Read(t, s.ca.File))
	s.replace("b-ca.pem", must.Read(t, other.File))
	var sites []string
	for _, name := range []string{"a", "b"} {
		sites = append(sites, site(name+".test", pairOf(name)+"\nclient_ca = \""+name+"-ca.pem\""))
	}
	s.running = serve(t, s.source(), siteConfig("tls = true", sites...))
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		sessions := oneSession{tls.NewLRUClientSessionCache(1)}
		dial := func(sni string) (resumed bool, status int, err error) {
			c, err := tls.Dial("tcp", s.at, &tls.Config{InsecureSkipVerify: true, ServerName: sni,
				ClientSessionCache: sessions, MaxVersion: version,
				Certificates: []tls.Certificate{s.ca.Issue(time.Hour, "ann")}})
			if err != nil {
				return false, 0, err
			}
			defer c.Close()
			must.Do(t, c.SetDeadline(time.Now().Add(wait.Patience)))
			status, _, _, _, err = (&tlsClient{t, c, bufio.NewReader(c)}).ask(sni, "/")
			return c.ConnectionState().DidResume, status, err
		}
		if _, status, err := dial("a.test"); status != 200 || err != nil {
			t.Fatal(status, err)
		}
		if resumed, status, err := dial("a.test"); !resumed || status != 200 || err != nil {
			t.Errorf("again: resumed %v, %d, %v", resumed, status, err)
		}
		if resumed, status, err := dial("b.test"); resumed || err == nil {
			t.Errorf("b.test by a session of a.test: resumed %v, %d, %v", resumed, status, err)
		}
	}
}

// TestSiteClientsClearText: a site that requires a certificate refuses requests in clear text; one
// with https = "redirect" redirects them.
func TestSiteClientsClearText(t *testing.T) {
	for _, row := range []struct {
		keys string
		want int
	}{{"", 403}, {"client_cert = \"optional\"\n", 200}, {"https = \"redirect\"\n", 301}} {
		s := newTLS(t)
		s.put("a", "a.test", time.Hour)
		s.put("free", "free.test", time.Hour)
		s.replace("ca.pem", must.Read(t, s.ca.File))
		text := clientSites("client_ca = \"ca.pem\"\n" + row.keys)
		s.running = serve(t, s.source(), strings.Replace(text,
			"[[listener]]\naddress = \"127.0.0.1:0\"",
			"[[listener]]\naddress = \"127.0.0.1:0\"\n[[listener]]\naddress = \"127.0.0.2:0\"", 1))
		req := must.Get(http.NewRequest("GET", "http://"+s.at+"/", nil))(t)
		req.Host = "a.test"
		resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
		resp.Body.Close()
		if resp.StatusCode != row.want {
			t.Errorf("%q: %s, want %d", row.keys, resp.Status, row.want)
		}
		if row.keys != "" {
			continue
		}
		for path, want := range map[string]int{"token-_1": 200, "": 403, "a/b": 403, "..%2fadmin": 403,
			"..%2F..%2Fadmin": 403, "%2e%2e%2fadmin": 403, "a%5c..%5cadmin": 403, "x/..%2f": 403} {
			req.URL = must.Get(url.Parse("http://" + s.at + "/.well-known/acme-challenge/" + path))(t)
			resp := must.Get(http.DefaultTransport.RoundTrip(req))(t)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: %s, want %d", path, resp.Status, want)
			}
		}
	}
}

// TestSiteClientsStricter: a reload by which a site asks for more, or by which a name gets to a
// site that does, ends the connections that have shown less; one that asks for less does not. So
// does a list that revokes a certificate.
func TestSiteClientsStricter(t *testing.T) {
	const ca = "client_ca = \"ca.pem\"\n"
	for _, row := range []struct {
		name, before, after string
		ends                bool
	}{
		{"asks now", "", ca, true},
		{"asks optionally", "", ca + "client_cert = \"optional\"\n", true},
		{"requires", ca + "client_cert = \"optional\"\n", ca, true},
		{"verifies", ca + "client_cert = \"any\"\n", ca + "client_cert = \"optional\"\n", true},
		{"another authority", ca, "client_ca = \"other.pem\"\n", true},
		{"lists", ca, ca + "client_crl = \"crl.pem\"\n", true},
		{"the same", ca, ca, false},
		{"less", ca, ca + "client_cert = \"optional\"\n", false},
		{"nothing", ca, "", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newTLS(t)
			s.put("a", "a.test", time.Hour)
			s.put("free", "free.test", time.Hour)
			s.replace("ca.pem", must.Read(t, s.ca.File))
			s.replace("other.pem", must.Read(t, certs.New(t).File))
			s.replace("crl.pem", string(s.ca.List(time.Now().Add(time.Hour), nil)))
			s.running = serve(t, s.source(), clientSites(row.before))
			c, err := s.client("free.test", nil, s.ca.Issue(time.Hour, "ann"))
			if err != nil {
				t.Fatal(err)
			}
			if status, _, _, _, err := c.ask("free.test", "/"); status != 200 || err != nil {
				t.Fatal(status, err)
			}
			s.reload(clientSites(row.after))
			status, _, _, _, err := c.ask("free.test", "/")
			if ended := err != nil || status != 200; ended != row.ends {
				t.Errorf("ended %v (%d, %v), want %v", ended, status, err, row.ends)
			}
		})
	}
}

// TestSiteCRL: a site's revocation list is for its clients, and is looked at again.
func TestSiteCRL(t *testing.T) {
	for _, mode := range []string{"require", "any"} {
		s := newTLS(t)
		s.put("a", "a.test", time.Hour)
		s.put("free", "free.test", time.Hour)
		s.replace("ca.pem", must.Read(t, s.ca.File))
		own := s.ca.Issue(time.Hour, "ann")
		list := func(revoked ...*x509.Certificate) {
			s.replace("crl.pem", string(s.ca.List(time.Now().Add(time.Hour), nil, revoked...)))
		}
		list()
		s.running = serve(t, s.source(), clientSites("client_ca = \"ca.pem\"\nclient_crl = \"crl.pem\"\n"+
			"client_cert = \""+mode+"\"\n"))
		ask := func() string {
			c, err := s.client("a.test", nil, own)
			if err != nil {
				return "refused"
			}
			_, verify, _, _, err := c.ask("a.test", "/")
			if err != nil {
				return "refused"
			}
			return verify
		}
		if got := ask(); got != "SUCCESS" {
			t.Errorf("%s: %s", mode, got)
		}
		list(certs.Leaf(own))
		s.RenewCerts(time.Now())
		want := map[string]string{"require": "refused", "any": "FAILED:revoked, or without a revocation list"}
		if got := ask(); got != want[mode] {
			t.Errorf("%s, revoked: %s, want %s", mode, got, want[mode])
		}
	}
}

// TestSiteClientsWeaker: a site that asks for less than its listener, or by another authority, lets
// nobody reach the sites for which the listener asks.
func TestSiteClientsWeaker(t *testing.T) {
	const ca, other = "client_ca = \"ca.pem\"\n", "client_ca = \"other.pem\"\n"
	for _, row := range []struct {
		name, listener, site string
		want                 int
	}{
		{"optional", ca, ca + "client_cert = \"optional\"\n", 421},
		{"any", ca, ca + "client_cert = \"any\"\n", 421},
		{"another authority", ca + "client_cert = \"optional\"\n", other, 421},
		{"the listener does not ask", "", ca + "client_cert = \"optional\"\n", 200},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, theirs := newTLS(t), certs.New(t)
			s.put("a", "a.test b.test", time.Hour)
			s.replace("ca.pem", must.Read(t, s.ca.File))
			s.replace("other.pem", must.Read(t, theirs.File))
			s.running = serve(t, s.source(), siteConfig("http2 = true\n"+pairOf("a")+"\n"+row.listener,
				site("a.test", ""), site("b.test", row.site)))
			var own []tls.Certificate
			if strings.HasPrefix(row.site, other) {
				own = append(own, theirs.Issue(time.Hour, "ann"))
			}
			c := must.Get(s.client("b.test", nil, own...))(t)
			for host, want := range map[string]int{"b.test": 200, "a.test": row.want, "A.test.:1": row.want,
				"x.test": row.want} {
				if status, _, _, _, err := c.ask(host, "/"); status != want || err != nil {
					t.Errorf("%s: %d, %v, want %d", host, status, err, want)
				}
			}
			tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool,
				ServerName: "b.test", Certificates: own}}
			defer tr.CloseIdleConnections()
			req := must.Get(http.NewRequest("GET", "https://"+s.at+"/", nil))(t)
			req.Host = "a.test"
			resp := must.Get(tr.RoundTrip(req))(t)
			resp.Body.Close()
			if resp.StatusCode != row.want || resp.ProtoMajor != 2 {
				t.Errorf("%s: %s, want %d", resp.Proto, resp.Status, row.want)
			}
			c, err := s.client("a.test", nil, s.ca.Issue(time.Hour, "ann"))
			if err != nil {
				t.Fatal(err)
			}
			if status, _, _, _, err := c.ask("a.test", "/"); status != 200 || err != nil {
				t.Errorf("with a certificate of its own: %d, %v", status, err)
			}
		})
	}
}

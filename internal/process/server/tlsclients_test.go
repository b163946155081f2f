package server_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
)

// TestClientCA: a client needs a certificate of that authority, and the least version of TLS holds.
func TestClientCA(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", time.Hour)
		s.replace("ca.pem", must.Read(t, s.ca.File))
	}, "tls = {cert = \"a.pem\", key = \"a.key\"}\nclient_ca = \"ca.pem\"\nmin_version = \"1.3\"")
	own, stranger := s.ca.Issue(time.Hour, "client.test"), certs.New(t).Issue(time.Hour, "client.test")
	for _, row := range []struct {
		what   string
		config *tls.Config
		want   string // in the error; "" for none
	}{
		{"its certificate", &tls.Config{Certificates: []tls.Certificate{own}}, ""},
		{"none", &tls.Config{}, "certificate required"},
		{"a stranger's",
			&tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return &stranger, nil
			}}, "unknown certificate authority"},
		{"TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, "protocol version"},
	} {
		row.config.ServerName = "a.test"
		_, err := s.connect(row.config)
		if row.want == "" && err != nil ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("a client with %s: %v, want %q", row.what, err, row.want)
		}
	}
	const refused = `msg="conn: client certificate refused"`
	s.logged(refused)
	if log := s.log.String(); strings.Count(log, refused) != 1 ||
		!strings.Contains(log, `subject="CN=client.test"`) ||
		!strings.Contains(log, "unknown authority") {
		t.Errorf("logged: %s", log)
	}
}

// TestAuthorities: a file of authorities is refused if a part of it is of no use, with the part's
// number. An authority that has expired, or will soon, is warned of.
func TestAuthorities(t *testing.T) {
	first, second := must.Read(t, certs.New(t).File), must.Read(t, certs.New(t).File) // good for a day
	damaged := second[:60] + second[61:]
	block := func(kind, text string) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(text)}))
	}
	cert, key := certs.New(t).Files(certs.New(t).Issue(time.Hour, "a.test"))
	private := must.Read(t, key)
	for _, test := range []struct {
		what  string
		parts []string
		want  string // in the error; "" for none
	}{
		{"two", []string{"# one\n", first, "# another\n", second, "# end\n"}, ""},
		{"a key beside", []string{first, private, second}, ""},
		{"nothing", nil, "ca.pem has no certificate in PEM"},
		{"only a key", []string{private}, "ca.pem has no certificate in PEM"},
		{"a damaged last one", []string{first, damaged}, "ca.pem: part 2 is no PEM (RFC 7468)"},
		{"a damaged one between", []string{first, damaged, second},
			"ca.pem: part 2 is no PEM (RFC 7468)"},
		{"a cut one", []string{first, second[:100]}, "ca.pem: part 2 is no PEM (RFC 7468)"},
		{"another's DER", []string{first, second, block("CERTIFICATE", "x")}, "ca.pem: part 3: x509: "},
		{"a list of revoked ones", []string{first, block("X509 CRL", "x")},
			"ca.pem: part 2: expected a CERTIFICATE, found a X509 CRL"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			must.Write(t, "ca.pem", strings.Join(test.parts, ""))
			_, err := source().Parse("t.conf", fmt.Sprintf("[[listener]]\naddress = \"127.0.0.1:0\"\n"+
				"client_ca = \"ca.pem\"\ntls = {cert = %q, key = %q}\n", cert, key))
			if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", 90*24*time.Hour)
		s.replace("ca.pem", first+second)
	}, "tls = {cert = \"a.pem\", key = \"a.key\"}\nclient_ca = \"ca.pem\"")
	for _, want := range []string{"expires on", "has expired on"} {
		if n := strings.Count(s.log.String(),
			"certificate of the authority CN=test authority "+want); n != 2 {
			t.Errorf("%d warnings %q: %s", n, want, s.log.String())
		}
		s.log.Reset()
		s.RenewCerts(time.Now().Add(25 * time.Hour))
	}
}

// TestStrictSNI: with strict_sni no client gets a certificate that is not for the name that it asks
// for, and a client that has a session does not get around that.
func TestStrictSNI(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", time.Hour)
		s.put("b", "*.b.test", time.Hour)
	},
		"strict_sni = true\ntls = [{cert = \"a.pem\", key = \"a.key\"}, {cert = \"b.pem\", key = "+
			"\"b.key\"}]")
	const refused = "unrecognized name"
	check := func(when string, rows map[string]string) {
		t.Helper()
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for sni, want := range rows {
				c := &tls.Config{ServerName: sni, InsecureSkipVerify: true, MaxVersion: version}
				if got, err := s.connect(c); want == refused &&
					(err == nil || !strings.Contains(err.Error(), want)) ||
					want != refused && (err != nil || got != want) {
					t.Errorf("%s, %s for %q: got %q, %v, want %s", when, tls.VersionName(version), sni, got, err,
						want)
				}
			}
		}
	}
	check("at first", map[string]string{"a.test": "a.test", "A.Test": "a.test", "x.b.test": "*.b.test",
		"b.test": refused, "x.y.b.test": refused, "c.test": refused, "": refused})

	// crypto/tls keeps sessions by the name, unless the cache says otherwise.
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		sessions := oneSession{tls.NewLRUClientSessionCache(1)}
		c := &tls.Config{ServerName: "a.test", MaxVersion: version, ClientSessionCache: sessions}
		must.Get(s.connect(c))(t)
		c.ServerName, c.InsecureSkipVerify = "c.test", true
		if _, err := s.connect(c); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("%s with another's session: %v", tls.VersionName(version), err)
		}
	}

	s.put("b", "c.test", time.Hour)
	s.RenewCerts(time.Now())
	check("after a renewal",
		map[string]string{"a.test": "a.test", "c.test": "c.test", "x.b.test": refused})
}

// TestStrictNames: the log says which name a client has asked for that was refused, whatever bytes
// it is made of, and no more than a line takes of a long one.
func TestStrictNames(t *testing.T) {
	t.Parallel()
	for sni, want := range map[string]string{
		"c.test":                         `name that the client asks for: \"c.test\""`,
		"c\n\xffä.test":                  `asks for: \"c\\n\\xff\\u00e4.test\""`,
		strings.Repeat("a", 62) + "äbcd": `asks for: \"` + strings.Repeat("a", 62) + `\\u00e4\"..."`,
		"":                               `client that asks for no name (SNI)"`,
	} {
		s := startTLS(t, func(s *tlsServer) { s.put("a", "a.test", time.Hour) },
			"strict_sni = true\ntls = {cert = \"a.pem\", key = \"a.key\"}")
		if _, err := s.connect(&tls.Config{ServerName: sni, InsecureSkipVerify: true}); err == nil ||
			!strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("%q: %v", sni, err)
		}
		s.logged(`msg="conn: tls handshakes failed"`)
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("%q: the log lacks %s", sni, want)
		}
	}
}

// TestOwnCertificate: a client that cannot use the certificates of the name that it asks for gets
// none, and not another name's that it could use. Of several it gets the one that it can use.
func TestOwnCertificate(t *testing.T) {
	for _, strict := range []string{"", "strict_sni = true\n"} {
		s := startTLS(t, func(s *tlsServer) {
			s.putRSA("a", "a.test")
			s.put("b", "b.test", time.Hour)
			s.put("c", "c.test", time.Hour)
			s.putRSA("d", "c.test")
		}, strict+`tls = [{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}, `+
			`{cert = "c.pem", key = "c.key"}, {cert = "d.pem", key = "d.key"}]`)
		for _, test := range []struct {
			sni   string
			suite uint16 // the client's only one
			want  string
		}{
			{"a.test", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "a.test"},
			{"a.test", tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, ""},
			{"b.test", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, ""},
			{"b.test", tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "b.test"},
			{"c.test", tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "c.test"},
			{"c.test", tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "c.test"},
		} {
			shown := ""
			_, err := s.connect(&tls.Config{ServerName: test.sni, MaxVersion: tls.VersionTLS12,
				CipherSuites: []uint16{test.suite}, InsecureSkipVerify: true,
				VerifyPeerCertificate: func(chain [][]byte, _ [][]*x509.Certificate) error {
					leaf, err := x509.ParseCertificate(chain[0])
					if err == nil {
						shown = leaf.DNSNames[0]
					}
					return err
				}})
			if shown != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %s, %s: got %q, %v, want %q", strict, test.sni,
					tls.CipherSuiteName(test.suite), shown, err, test.want)
			}
		}
	}
}

// putRSA is put with another kind of key.
func (s *tlsServer) putRSA(file, name string) {
	s.t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, 1024))(s.t)
	text, err := s.ca.Sign(&x509.CertificateRequest{DNSNames: []string{name},
		PublicKey: &key.PublicKey},
		time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		s.t.Fatal(err)
	}
	der := must.Get(x509.MarshalPKCS8PrivateKey(key))(s.t)
	s.replace(file+".pem", string(text))
	s.replace(file+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// oneSession is a cache that gives every name the same session.
type oneSession struct{ tls.ClientSessionCache }

func (s oneSession) Get(string) (*tls.ClientSessionState, bool) {
	return s.ClientSessionCache.Get("")
}

func (s oneSession) Put(_ string, c *tls.ClientSessionState) { s.ClientSessionCache.Put("", c) }

// TestSessionsStay: a client's session is good on every loop, and after certificates are renewed
// and the configuration is loaded anew.
func TestSessionsStay(t *testing.T) {
	for _, strict := range []string{"", "strict_sni = true\n"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			s := startTLS(t, func(s *tlsServer) { s.put("a", "a.test", time.Hour) },
				strict+"tls = {cert = \"a.pem\", key = \"a.key\"}")
			sessions := oneSession{tls.NewLRUClientSessionCache(1)}
			resumed := func() bool {
				c := &tls.Config{ServerName: "a.test", RootCAs: s.ca.Pool, MaxVersion: version,
					ClientSessionCache: sessions}
				conn := must.Get(tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", s.at, c))(t)
				defer conn.Close()
				must.Get(conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")))(t)
				must.Get(conn.Read(make([]byte, 1)))(t) // behind the ticket of TLS 1.3
				return conn.ConnectionState().DidResume
			}
			if resumed() {
				t.Fatal("a session before any")
			}
			for i := range 4 {
				if !resumed() {
					t.Errorf("%s: no session the %dth time", tls.VersionName(version), i+1)
				}
			}
			s.put("a", "a.test", 2*time.Hour)
			s.RenewCerts(time.Now())
			if !resumed() {
				t.Errorf("%s: no session after a renewal", tls.VersionName(version))
			}
			s.reload("grace = \"9s\"\n" + must.Read(t, s.file))
			if !resumed() {
				t.Errorf("%s: no session after a reload", tls.VersionName(version))
			}
		}
	}
}

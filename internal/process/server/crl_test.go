package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
)

// TestClientCRL: a client whose certificate was revoked is refused, also where it goes on with a
// session of before, and so is every client once the list is over. The file is read again without a
// reload.
func TestClientCRL(t *testing.T) {
	var until time.Time
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", time.Hour)
		s.replace("ca.pem", must.Read(t, s.ca.File))
		until = time.Now().Add(time.Hour)
		s.replace("crl.pem", string(s.ca.List(until, nil)))
	}, "tls = {cert = \"a.pem\", key = \"a.key\"}\nclient_ca = \"ca.pem\"\nclient_crl = \"crl.pem\"")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		own, other := s.ca.Issue(time.Hour, "client.test"), s.ca.Issue(time.Hour, "other.test")
		client := func(c tls.Certificate) *tls.Config {
			return &tls.Config{ServerName: "a.test", RootCAs: s.ca.Pool, MaxVersion: version,
				Certificates: []tls.Certificate{c}, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
		}
		resumes, fresh := client(own), client(other)
		for range 2 {
			must.Get(s.connect(resumes))(t)
		}
		s.replace("crl.pem", string(s.ca.List(until, nil, certs.Leaf(own))))
		s.RenewCerts(time.Now())
		if _, err := s.connect(resumes); err == nil || !strings.Contains(err.Error(), "bad certificate") {
			t.Errorf("%s: a session of a revoked certificate: %v", tls.VersionName(version), err)
		}
		if _, err := s.connect(client(own)); err == nil ||
			!strings.Contains(err.Error(), "bad certificate") {
			t.Errorf("%s: a revoked certificate: %v", tls.VersionName(version), err)
		}
		if _, err := s.connect(fresh); err != nil {
			t.Errorf("%s: another one: %v", tls.VersionName(version), err)
		}
		s.replace("crl.pem", string(s.ca.List(until, nil)))
		s.RenewCerts(time.Now())
	}
	s.logged("was revoked")
	s.replace("crl.pem", "")
	s.RenewCerts(time.Now())
	s.logged("the old ones stay")
}

// TestCRLKeys: what is wrong with the lists is said of the key.
func TestCRLKeys(t *testing.T) {
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(time.Hour, "a.test"))
	t.Chdir(t.TempDir())
	must.Write(t, "ca.pem", must.Read(t, ca.File))
	must.Write(t, "over.pem", string(ca.List(time.Now().Add(-time.Minute), nil)))
	must.Write(t, "good.pem", string(ca.List(time.Now().Add(time.Hour), nil)))
	must.Write(t, "later.pem",
		string(ca.List(time.Now().Add(time.Hour), func(l *x509.RevocationList) {
			l.ThisUpdate = time.Now().Add(time.Minute)
		})))
	for keys, want := range map[string]string{
		"client_ca = 'ca.pem'\nclient_crl = 'good.pem'":  "",
		"client_ca = 'ca.pem'\nclient_crl = 'over.pem'":  "has expired on",
		"client_ca = 'ca.pem'\nclient_crl = 'later.pem'": "is not valid before",
		"client_ca = 'ca.pem'\nclient_crl = 'ca.pem'":    "has no X509 CRL in PEM",
		"client_ca = 'ca.pem'\nclient_crl = 'none'":      "no such file",
		"client_crl = 'good.pem'":                        "needs client_ca beside it",
	} {
		_, err := source().Parse("t.conf",
			"[[listener]]\naddress = '127.0.0.1:0'\n"+keys+"\ntls = {cert = '"+cert+"', key = '"+key+"'}\n")
		if want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), "client_crl: ") ||
				!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", keys, err, want)
		}
	}
}

package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/settings"
	testcerts "github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/tls/certs"
)

// TestCertNames: certificates are found by what crypto/x509 says fits, those with the very name
// before those with a wildcard, and else in their order; no matter how many others there are.
func TestCertNames(t *testing.T) {
	ca := testcerts.New(t)
	var all []tls.Certificate
	for _, names := range []string{"*.a.test", "b.test *.b.test", "x.a.test", "X.A.test a.test",
		"127.0.0.1"} {
		cert := ca.Issue(time.Hour, strings.Fields(names)...)
		var err error
		if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			t.Fatal(err)
		}
		all = append(all, cert)
	}
	found := certs.Index(all)
	for sni, want := range map[string]string{
		"x.a.test": "2 3 0", "X.a.TEST": "2 3 0", "x.a.test.": "2 3 0", "y.a.test": "0", "a.test": "3",
		"b.test": "1", "c.b.test": "1", "d.c.b.test": "", "c.test": "", "": "", ".": "", "*.a.test": "0",
		".a.test": "", "test": "", "127.0.0.1": "",
	} {
		var got []string
		for cert := range found.Of(sni) {
			for i := range all {
				if cert == &all[i] {
					got = append(got, fmt.Sprint(i))
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: certificates %v, want %s", sni, got, want)
		}
	}
}

// TestStrictOffersHTTP2: what a listener asks of names leaves the protocols alone.
func TestStrictOffersHTTP2(t *testing.T) {
	ca := testcerts.New(t)
	cert, key := ca.Files(ca.Issue(time.Hour, "a.test"))
	for _, strict := range []bool{false, true} {
		file := settings.Parse("t.conf", "/", fmt.Sprintf("strict_sni = %v\ntls = {cert = %q, key = %q}",
			strict, cert, key))
		var l certs.TLS
		file.Root().Decode(&l)
		l.Check(certs.Context{Dir: "/", Protocols: []string{"h2", "http/1.1"},
			Reader: certs.NewReader(nil), Log: slog.Default()})
		must.Do(t, file.Err())
		var current atomic.Pointer[certs.Offer]
		current.Store(l.Offer())
		live := certs.NewObtainer(certs.Options{}, slog.Default()).ListenerConfig(&current)
		got, err := live.GetConfigForClient(&tls.ClientHelloInfo{ServerName: "a.test"})
		if err != nil || !slices.Contains(got.NextProtos, "h2") {
			t.Errorf("strict_sni = %v: %v, %v", strict, got.NextProtos, err)
		}
	}
}

// TestSiteClientsChanged: a site's revocation list that cannot be read again for a listener is an
// error. Otherwise the listener would do without the list.
func TestSiteClientsChanged(t *testing.T) {
	ca := testcerts.New(t)
	cert, key := ca.Files(ca.Issue(time.Hour, "a.test"))
	list := filepath.Join(t.TempDir(), "crl.pem")
	must.Write(t, list, string(ca.List(time.Now().Add(time.Hour), nil)))
	file := settings.Parse("t.conf", "/", fmt.Sprintf("client_ca = %q\nclient_crl = %q\n"+
		"tls = {cert = %q, key = %q}", ca.File, list, cert, key))
	var s certs.Site
	file.Root().Decode(&s)
	c := certs.Context{Dir: "/", Reader: certs.NewReader(nil), Log: slog.Default()}
	s.Check(c)
	must.Do(t, file.Err())
	c.Sites = certs.Sites{Of: func(string) int { return 0 }, All: []*certs.Site{&s}}
	must.Write(t, list, "no list")
	for range 2 {
		on := true
		l := certs.TLS{Files: []certs.Files{{On: &on}}}
		l.Check(c)
	}
	if err := file.Err(); err == nil || strings.Count(err.Error(), "client_crl") != 1 {
		t.Errorf("%v, want one error at client_crl", err)
	}
}

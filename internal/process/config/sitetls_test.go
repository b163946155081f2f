package config_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
)

// tlsFolder has a pair of files for each list of names: a.pem and a.key for "a".
func tlsFolder(t *testing.T, pairs map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	ca := certs.New(t)
	for file, names := range pairs {
		cert, key := ca.Files(ca.Issue(90*24*time.Hour, strings.Fields(names)...))
		must.Do(t, os.Rename(cert, filepath.Join(dir, file+".pem")))
		must.Do(t, os.Rename(key, filepath.Join(dir, file+".key")))
	}
	return dir
}

// parseIn parses files of a folder, the first of which includes the others.
func parseIn(t *testing.T, dir string, files ...string) (*config.Config, error) {
	t.Helper()
	for i, text := range files {
		name := fmt.Sprintf("%c.conf", 'a'+i)
		if i == 0 {
			text = "include = [\"[b-z].conf\"]\n" + text
		}
		must.Write(t, filepath.Join(dir, name), text)
	}
	s := source()
	s.File = filepath.Join(dir, "a.conf")
	return s.Load()
}

const (
	tlsListener = "[[listener]]\naddress = \"*:443\"\ntls = true\n"
	pairA       = "tls = { cert = \"a.pem\", key = \"a.key\" }\n"
	pairB       = "tls = { cert = \"b.pem\", key = \"b.key\" }\n"
	hello       = "[[site.route]]\nprefix = \"/\"\nhandler = \"hello_world\"\n"
)

// TestSiteTLSErrors: what a site says of TLS in vain is an error, at its file and line.
func TestSiteTLSErrors(t *testing.T) {
	for _, row := range []struct {
		name, a, b string
		files      []string // by configuration
		want       string   // "": none
	}{
		{name: "no listener with tls", files: []string{"[[listener]]\naddress = \"*:80\"\n",
			"[[site]]\nhost = \"a.test\"\n" + pairA},
			want: "b.conf:3: site.tls: no listener of the site has tls; expected tls = true at one of them"},
		{name: "no listener", files: []string{"", "[[site]]\n" + pairA}, want: "no listener of the site has tls"},
		{name: "tls is off", files: []string{"[[listener]]\naddress = \"*:443\"\ntls = false\n",
			"[[site]]\n" + pairA}, want: "no listener of the site has tls"},
		{name: "at another listener", files: []string{tlsListener + "name = \"x\"\n[[listener]]\n" +
			"address = \"*:80\"\nname = \"y\"\n", "[[site]]\nlistener = \"y\"\n" + pairA},
			want: "b.conf:3: site.tls: no listener of the site has tls"},
		{name: "for http", files: []string{tlsListener + "[[listener]]\naddress = \"*:80\"\n",
			"[[site]]\nscheme = \"http\"\n" + pairA}, want: `b.conf:3: site.tls: has no effect beside scheme`},
		{name: "true", files: []string{tlsListener, "[[site]]\ntls = true\n"},
			want: "b.conf:2: site.tls: expected { cert = ..., key = ... } or { acme = true }"},
		{name: "none", files: []string{tlsListener, "[[site]]\ntls = []\n"}, want: "b.conf:2: site.tls: expected"},
		{name: "true and a pair", files: []string{"[[listener]]\naddress = \"*:443\"\ntls = [true, { cert = " +
			"\"a.pem\", key = \"a.key\" }]\n", "[[site]]\n" + pairA}, want: "not both"},
		{name: "a stream", files: []string{"[[stream]]\naddress = \"*:443\"\ntls = true\n" +
			"[[stream.route]]\naddress = \"127.0.0.1:1\"\n"}, want: "no [[site]] brings certificates here"},
		{name: "no file", files: []string{tlsListener + "[[listener]]\naddress = \"*:444\"\ntls = true\n",
			"[[site]]\ntls = { cert = \"x.pem\", key = \"x.key\" }\n"},
			want: "b.conf:2: site.tls: open DIR/x.pem: no such file or directory"},
		{name: "no acme", files: []string{tlsListener, "[[site]]\nhost = \"a.test\"\ntls = { acme = true }\n"},
			want: "b.conf:3: site.tls.acme: needs acme ="},
		{name: "acme without host", files: []string{tlsListener + "[tls]\nacme = {}\n",
			"[[site]]\ntls = { acme = true }\n"}, want: "b.conf:2: site.tls.acme: needs the key host"},
		{name: "acme of a wildcard", files: []string{tlsListener + "[tls]\nacme = {}\n",
			"[[site]]\nhost = \"*.a.test\"\ntls = { acme = true }\n"},
			want: `b.conf:3: site.tls.acme: host "*.a.test": a wildcard needs another challenge`},

		{name: "two pairs for a name", a: "a.test both.test", b: "b.test both.test",
			files: []string{tlsListener, "[[site]]\nhost = \"a.test\"\n" + pairA,
				"[[site]]\nhost = \"b.test\"\n" + pairB},
			want: "c.conf:3: site.tls: both.test is a name of this certificate, and of another one, which " +
				"another site brings (b.conf, line 3)"},
		{name: "two pairs at two listeners, said once", a: "a.test both.test", b: "both.test",
			files: []string{tlsListener + "[[listener]]\naddress = \"*:444\"\ntls = true\n",
				"[[site]]\nhost = \"a.test\"\n" + pairA, "[[site]]\nhost = \"b.test\"\n" + pairB},
			want: "c.conf:3: site.tls: both.test is a name"},
		{name: "two pairs for the host of one", a: "a.test b.test", b: "b.test",
			files: []string{tlsListener, "[[site]]\nhost = \"a.test\"\n" + pairA,
				"[[site]]\nhost = \"b.test\"\n" + pairB}},
		{name: "the same pair", a: "a.test both.test", b: "b.test", files: []string{tlsListener,
			"[[site]]\nhost = \"a.test\"\n" + pairA, "[[site]]\nhost = \"c.test\"\n" + pairA}},
		{name: "pairs at different listeners", a: "x.test", b: "x.test", files: []string{
			tlsListener + "name = \"x\"\n[[listener]]\naddress = \"*:444\"\nname = \"y\"\ntls = true\n",
			"[[site]]\nlistener = \"x\"\nhost = \"a.test\"\n" + pairA,
			"[[site]]\nlistener = \"y\"\nhost = \"b.test\"\n" + pairB}},
		{name: "one host in two files", a: "a.test", b: "a.test", files: []string{tlsListener,
			"[[site]]\nhost = [\"x.test\", \"A.test\"]\n" + pairA, "\n[[site]]\nhost = \"a.test\"\n" + pairB},
			want: `c.conf:3: site.host: "a.test": named twice; ` +
				`the other one is of the site at DIR/b.conf, line 1`},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := tlsFolder(t, map[string]string{"a": row.a, "b": row.b})
			for i := 1; i < len(row.files); i++ {
				row.files[i] += hello
			}
			_, err := parseIn(t, dir, row.files...)
			got := strings.ReplaceAll(fmt.Sprint(err), dir+"/", "DIR/")
			got = strings.ReplaceAll(got, dir, "DIR")
			if row.want == "" && err != nil || row.want != "" && (err == nil ||
				!strings.Contains(strings.ReplaceAll(got, "DIR/", ""), strings.ReplaceAll(row.want, "DIR/", ""))) {
				t.Errorf("%s\nwant %s", got, row.want)
			}
			if strings.Count(got, "is a name of") > 1 {
				t.Errorf("said twice:\n%s", got)
			}
		})
	}
}

// TestSiteTLSObtains: the hosts of sites with acme = true are domains, beside those of [tls].
func TestSiteTLSObtains(t *testing.T) {
	dir := t.TempDir()
	c, err := parseIn(t, dir, tlsListener+"[tls]\nacme = { domains = [\"x.test\", \"B.test\"] }\n",
		"[[site]]\nhost = [\"A.test\", \"b.test\"]\ntls = { acme = true }\n"+hello)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.ACME().Domains; !slices.Equal(got, []string{"x.test", "b.test", "a.test"}) {
		t.Errorf("domains %q", got)
	}
}

// TestCertificateProblems: a certificate without a DNS name, and one that is for none of its site's
// hosts, is warned of; one that demands a stapled response is refused.
func TestCertificateProblems(t *testing.T) {
	dir := tlsFolder(t, map[string]string{"a": "a.test", "b": ""})
	c, err := parseIn(t, dir, tlsListener, "[[site]]\nhost = \"b.test\"\n"+pairA+hello,
		"[[site]]\nhost = \"c.test\"\n"+pairB+hello)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range c.Certs().Warnings(time.Now()) {
		got = append(got, w.Position+": "+w.Problem)
	}
	want := []string{"b.conf, line 3: is for no host of its site: b.test",
		"c.conf, line 3: has no DNS name (subjectAltName), so clients that verify it refuse it"}
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], dir+"/", "")
	}
	if !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}

	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	stapled := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"a.test"}, ExtraExtensions: []pkix.Extension{
			{Id: []int{1, 3, 6, 1, 5, 5, 7, 1, 24}, Value: []byte{0x30, 3, 2, 1, 5}}}}
	der := must.Get(x509.CreateCertificate(rand.Reader, stapled, stapled, key.Public(), key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	write := func(name, kind string, der []byte) {
		must.Write(t, filepath.Join(dir, name),
			string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
	}
	write("a.pem", "CERTIFICATE", der)
	write("a.key", "PRIVATE KEY", private)
	for _, text := range []string{"[[listener]]\naddress = \"*:443\"\n" + pairA,
		tlsListener + "[[site]]\nhost = \"a.test\"\n" + pairA + hello} {
		if _, err := source().Parse(filepath.Join(dir, "t.conf"), text); err == nil ||
			!strings.Contains(err.Error(), "tls.cert: ") || !strings.Contains(err.Error(), "must-staple") {
			t.Errorf("%s\n%v", text, err)
		}
	}
}

// TestCipherSuites: with TLS 1.2 no suite with CBC is offered, and none without forward secrecy.
func TestCipherSuites(t *testing.T) {
	dir := tlsFolder(t, map[string]string{"a": "a.test"})
	c := must.Get(source().Parse(filepath.Join(dir, "t.conf"),
		"[[listener]]\naddress = \"*:443\"\n"+pairA))(t)
	offered := c.Listeners[0].TLS.Config.CipherSuites
	for _, s := range tls.CipherSuites() {
		if !slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		want := strings.HasPrefix(s.Name, "TLS_ECDHE_") && !strings.Contains(s.Name, "CBC")
		if slices.Contains(offered, s.ID) != want {
			t.Errorf("%s: offered %v", s.Name, !want)
		}
	}
	if len(offered) == 0 {
		t.Error("no suite: crypto/tls would offer its own")
	}
}

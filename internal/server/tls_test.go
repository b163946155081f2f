package server_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/metrics"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
)

// tlsServer is a server of certificates in a folder, with the log of the server.
type tlsServer struct {
	*server.Server
	t   *testing.T
	dir string
	log *logtext.Buffer
	ca  *certs.Authority
}

// put writes a new certificate, and its key, for a name.
func (s *tlsServer) put(file, name string, valid time.Duration) {
	s.t.Helper()
	cert, key := s.ca.Files(s.ca.Issue(valid, name))
	s.move(cert, file+".pem")
	s.move(key, file+".key")
}

// move gives a file its name in the server's folder.
func (s *tlsServer) move(from, to string) {
	s.t.Helper()
	if err := os.Rename(from, filepath.Join(s.dir, to)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *tlsServer) write(file, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, file)
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path) // another inode, whatever the resolution of times
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func startTLS(t *testing.T, certificates func(s *tlsServer), keys string) *tlsServer {
	t.Helper()
	s := &tlsServer{t: t, dir: t.TempDir(), log: new(logtext.Buffer), ca: certs.New(t)}
	certificates(s)
	s.write("lwango.conf", "threads = 3\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+keys+"\n"+
		route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
	src := source()
	src.File, src.Logger = filepath.Join(s.dir, "lwango.conf"), logtext.Logger(t, s.log)
	c, err := src.Load()
	if err == nil {
		s.Server, err = server.Start(src, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// connect shakes hands, and returns the name of the server's certificate.
func (s *tlsServer) connect(c *tls.Config) (name string, err error) {
	c.RootCAs = s.ca.Pool
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", s.Addresses()[0], c)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	// With TLS 1.3 the server refuses a client's certificate when the client takes the handshake for
	// done.
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		return "", err
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].DNSNames[0], nil
}

// TestRenewCerts: certificates whose files have changed are taken up, whole pairs only, and what
// cannot be used is said once.
func TestRenewCerts(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", 90*24*time.Hour)
		s.put("b", "b.test", 90*24*time.Hour)
	}, `tls = [{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}]`)
	kept, err := tls.Dial("tcp", s.Addresses()[0], &tls.Config{ServerName: "a.test", RootCAs: s.ca.Pool})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	names := func(when, want string) {
		t.Helper()
		var got []string
		for _, sni := range []string{"a.test", "b.test"} {
			name, err := s.connect(&tls.Config{ServerName: sni, InsecureSkipVerify: true})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, name)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %s, want %s", when, got, want)
		}
	}
	look := func(logged ...string) {
		t.Helper()
		s.log.Reset()
		s.RenewCerts(time.Now())
		for _, want := range logged {
			if !strings.Contains(s.log.String(), want) {
				t.Errorf("not logged: %s", want)
			}
		}
		if len(logged) == 0 && s.log.String() != "" {
			t.Error("logged: " + s.log.String())
		}
	}
	names("at first", "a.test b.test")
	look()
	s.put("b", "b2.test", 90*24*time.Hour)
	look(`msg="certificate renewed"`, "b.pem", "b2.test")
	names("with a new one", "a.test a.test") // b2.test, whose name b.test is not
	look()

	old, err := os.ReadFile(filepath.Join(s.dir, "a.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.put("a", "a2.test", 90*24*time.Hour)
	now, err := os.ReadFile(filepath.Join(s.dir, "a.key"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("a.key", string(old))
	look(`msg="certificate cannot be renewed, the old one stays"`, "a.pem", "does not match")
	look() // once
	names("with a key of another", "a.test a.test")
	s.write("a.key", string(now))
	look("a2.test")
	names("with both", "a2.test a2.test")
	if err := os.Remove(filepath.Join(s.dir, "a.pem")); err != nil {
		t.Fatal(err)
	}
	look("no such file")
	look()
	names("without a file", "a2.test a2.test")
	if err := syscall.Mkfifo(filepath.Join(s.dir, "a.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	look("a.pem: not a regular file") // and nobody waits for its writer
	names("with a pipe", "a2.test a2.test")

	if _, err := kept.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection of before: %v", err)
	}
}

// TestRenewCertsLater: certificates for which no descriptor was left are read at the next look.
func TestRenewCertsLater(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) { s.put("a", "old.test", time.Hour) },
		"tls = {cert = \"a.pem\", key = \"a.key\"}")
	s.put("a", "new.test", time.Hour)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i := range 3 { // the fault is said once
		s.RenewCerts(now.Add(time.Duration(i) * time.Minute))
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(s.log.String(), "too many open files"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	s.RenewCerts(now.Add(3 * time.Minute))
	if name, err := s.connect(&tls.Config{ServerName: "new.test"}); name != "new.test" || err != nil {
		t.Errorf("%q, %v, want the new certificate", name, err)
	}
}

// TestCertStatus: the status page knows when certificates expire, also after they have been renewed.
func TestCertStatus(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", 90*24*time.Hour)
		s.put("b", "b.test", 90*24*time.Hour)
	}, `tls = [{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}]
[[listener]]
address = "unix:other"
tls = {cert = "a.pem", key = "a.key"}
[[listener]]
address = "unix:status"
[[site]]
host = "x"
[[site.route]]
prefix = "/status"
module = "status"`)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return net.Dial("unix", filepath.Join(s.dir, "status"))
		}}}
	read := func(path string) []byte {
		t.Helper()
		resp, err := client.Get("http://x/status/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	check := func(when string) {
		t.Helper()
		var got metrics.Snapshot
		if err := json.Unmarshal(read("json"), &got); err != nil {
			t.Fatal(err)
		}
		a, b := s.leaf("a"), s.leaf("b")
		want := []metrics.Certificate{
			{File: filepath.Join(s.dir, "a.pem"), Names: a.DNSNames, Until: a.NotAfter},
			{File: filepath.Join(s.dir, "b.pem"), Names: b.DNSNames, Until: b.NotAfter}}
		if !reflect.DeepEqual(got.Certificates, want) {
			t.Errorf("%s: got %v, want %v", when, got.Certificates, want)
		}
		line := fmt.Sprintf("lwango_certificate_not_after_seconds{file=%q} %g\n", want[0].File,
			float64(a.NotAfter.Unix()))
		if text := string(read("metrics")); !strings.Contains(text, line) {
			t.Errorf("%s: no line %s", when, line)
		}
	}
	check("at first")
	s.put("a", "a2.test", 80*24*time.Hour)
	s.RenewCerts(time.Now())
	check("after a renewal")
}

// TestCertWarnings: a certificate that has expired, or will soon, is warned of at the start, after
// a reload and once a day.
func TestCertWarnings(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", -time.Minute)
		s.put("b", "b.test", 13*24*time.Hour)
		s.put("c", "c.test", 15*24*time.Hour)
	}, `tls = [{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}, {cert = "c.pem", key = "c.key"}]`)
	warned := func(when, want string) {
		t.Helper()
		var got []string
		for line := range strings.Lines(s.log.String()) {
			for _, name := range []string{"a", "b", "c"} {
				for _, what := range []string{"has expired", "expires", "is not valid before"} {
					if strings.Contains(line, name+".test") && strings.Contains(line, `"certificate `+what) {
						got = append(got, name+" "+what)
					}
				}
			}
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
		s.log.Reset()
	}
	warned("at the start", "a has expired, b expires")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	warned("after a reload", "a has expired, b expires")
	s.RenewCerts(time.Now().Add(23 * time.Hour))
	warned("on the same day", "")
	s.RenewCerts(time.Now().Add(25 * time.Hour))
	warned("a day later", "a has expired, b expires, c expires")
	s.RenewCerts(time.Now().Add(26 * time.Hour))
	warned("an hour later", "")
	s.RenewCerts(time.Now().Add(-30 * time.Hour)) // a clock that was set back
	warned("before", "")
}

// TestWrongChain: a certificate that is not signed by the one behind it in its file is warned of, at
// the start, when it comes by a renewal, and once a day.
func TestWrongChain(t *testing.T) {
	chain := func(s *tlsServer, signers ...string) {
		t.Helper()
		s.put("a", "a.test", 90*24*time.Hour)
		var all []byte
		for _, path := range append([]string{filepath.Join(s.dir, "a.pem")}, signers...) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		s.write("a.pem", string(all))
	}
	stranger := certs.New(t).File
	s := startTLS(t, func(s *tlsServer) { chain(s, stranger) }, `tls = {cert = "a.pem", key = "a.key"}`)
	warned := func(when, want string) {
		t.Helper()
		if got := s.log.String(); (want == "") == strings.Contains(got, "wrong chain") ||
			!strings.Contains(got, want) {
			t.Errorf("%s: want %q, logged: %s", when, want, got)
		}
		s.log.Reset()
	}
	warned("at the start", "has a wrong chain: its certificate 2 has not signed the one before it")
	s.RenewCerts(time.Now().Add(25 * time.Hour))
	warned("a day later", "certificate 2")
	chain(s, s.ca.File)
	s.RenewCerts(time.Now().Add(25 * time.Hour))
	warned("with the signer's", "")
	chain(s, s.ca.File, s.ca.File)
	s.RenewCerts(time.Now().Add(25 * time.Hour))
	warned("with a root twice", "") // a root signs itself
	chain(s, s.ca.File, stranger)
	s.RenewCerts(time.Now().Add(25 * time.Hour))
	warned("after a renewal", "certificate 3")
	if name, err := s.connect(&tls.Config{ServerName: "a.test"}); name != "a.test" {
		t.Errorf("it is served: %q, %v", name, err)
	}
}

// TestClientCA: a client needs a certificate of that authority, and the least version of TLS holds.
func TestClientCA(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", time.Hour)
		text, err := os.ReadFile(s.ca.File)
		if err != nil {
			t.Fatal(err)
		}
		s.write("ca.pem", string(text))
	}, "tls = {cert = \"a.pem\", key = \"a.key\"}\nclient_ca = \"ca.pem\"\nmin_version = \"1.3\"")
	own, stranger := s.ca.Issue(time.Hour, "client.test"), certs.New(t).Issue(time.Hour, "client.test")
	for _, row := range []struct {
		what   string
		config *tls.Config
		want   string // in the error; "" for none
	}{
		{"its certificate", &tls.Config{Certificates: []tls.Certificate{own}}, ""},
		{"none", &tls.Config{}, "certificate required"},
		{"a stranger's", &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &stranger, nil
		}}, "unknown certificate authority"},
		{"TLS 1.2", &tls.Config{MaxVersion: tls.VersionTLS12}, "protocol version"},
	} {
		row.config.ServerName = "a.test"
		_, err := s.connect(row.config)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("a client with %s: %v, want %q", row.what, err, row.want)
		}
	}
	const refused = `msg="conn: client certificate refused"`
	s.logged(refused)
	if log := s.log.String(); strings.Count(log, refused) != 1 || !strings.Contains(log, `subject="CN=client.test"`) ||
		!strings.Contains(log, "unknown authority") {
		t.Errorf("logged: %s", log)
	}
}

// TestAuthorities: a file of authorities is refused if a part of it is of no use, with the part's
// number. An authority that has expired, or will soon, is warned of.
func TestAuthorities(t *testing.T) {
	first, err := os.ReadFile(certs.New(t).File) // is good for a day
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(certs.New(t).File)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append(slices.Clone(second[:60]), second[61:]...)
	block := func(kind, text string) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte(text)})
	}
	cert, key := certs.New(t).Files(certs.New(t).Issue(time.Hour, "a.test"))
	private, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what  string
		parts [][]byte
		want  string // in the error; "" for none
	}{
		{"two", [][]byte{[]byte("# one\n"), first, []byte("# another\n"), second, []byte("# end\n")}, ""},
		{"a key beside", [][]byte{first, private, second}, ""},
		{"nothing", nil, "ca.pem has no certificate in PEM"},
		{"only a key", [][]byte{private}, "ca.pem has no certificate in PEM"},
		{"a damaged last one", [][]byte{first, damaged}, "ca.pem: part 2 is no PEM (RFC 7468)"},
		{"a damaged one between", [][]byte{first, damaged, second}, "ca.pem: part 2 is no PEM (RFC 7468)"},
		{"a cut one", [][]byte{first, second[:100]}, "ca.pem: part 2 is no PEM (RFC 7468)"},
		{"another's DER", [][]byte{first, second, block("CERTIFICATE", "x")}, "ca.pem: part 3: x509: "},
		{"a list of revoked ones", [][]byte{first, block("X509 CRL", "x")},
			"ca.pem: part 2: expected a CERTIFICATE, found a X509 CRL"},
	} {
		t.Run(test.what, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.WriteFile("ca.pem", bytes.Join(test.parts, nil), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := source().Parse("t.conf", fmt.Sprintf("[[listener]]\naddress = \"127.0.0.1:0\"\n"+
				"client_ca = \"ca.pem\"\ntls = {cert = %q, key = %q}\n", cert, key))
			if got := fmt.Sprint(err); test.want == "" && err != nil || !strings.Contains(got, test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	s := startTLS(t, func(s *tlsServer) {
		s.put("a", "a.test", 90*24*time.Hour)
		s.write("ca.pem", string(first)+string(second))
	}, "tls = {cert = \"a.pem\", key = \"a.key\"}\nclient_ca = \"ca.pem\"")
	for _, want := range []string{"expires on", "has expired on"} {
		if n := strings.Count(s.log.String(), "certificate of the authority CN=test authority "+want); n != 2 {
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
	}, "strict_sni = true\ntls = [{cert = \"a.pem\", key = \"a.key\"}, {cert = \"b.pem\", key = \"b.key\"}]")
	const refused = "unrecognized name"
	check := func(when string, rows map[string]string) {
		t.Helper()
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			for sni, want := range rows {
				c := &tls.Config{ServerName: sni, InsecureSkipVerify: true, MaxVersion: version}
				if got, err := s.connect(c); want == refused && (err == nil || !strings.Contains(err.Error(), want)) ||
					want != refused && (err != nil || got != want) {
					t.Errorf("%s, %s for %q: got %q, %v, want %s", when, tls.VersionName(version), sni, got, err, want)
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
		if _, err := s.connect(c); err != nil {
			t.Fatal(err)
		}
		c.ServerName, c.InsecureSkipVerify = "c.test", true
		if _, err := s.connect(c); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("%s with another's session: %v", tls.VersionName(version), err)
		}
	}

	s.put("b", "c.test", time.Hour)
	s.RenewCerts(time.Now())
	check("after a renewal", map[string]string{"a.test": "a.test", "c.test": "c.test", "x.b.test": refused})
}

// TestOwnCertificate: a client that cannot use the certificates of the name that it asks for gets none,
// and not another name's that it could use. Of several it gets the one that it can use.
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
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := s.ca.Sign(&x509.CertificateRequest{DNSNames: []string{name}, PublicKey: &key.PublicKey},
		time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if err != nil {
		s.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(file+".pem", string(text))
	s.write(file+".key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
}

// oneSession is a cache that gives every name the same session.
type oneSession struct{ tls.ClientSessionCache }

func (s oneSession) Get(string) (*tls.ClientSessionState, bool) { return s.ClientSessionCache.Get("") }
func (s oneSession) Put(_ string, c *tls.ClientSessionState)    { s.ClientSessionCache.Put("", c) }

// TestSessionsStay: a client's session is good on every loop, and after certificates are renewed
// and the configuration is loaded anew.
func TestSessionsStay(t *testing.T) {
	for _, strict := range []string{"", "strict_sni = true\n"} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			s := startTLS(t, func(s *tlsServer) { s.put("a", "a.test", time.Hour) },
				strict+"tls = {cert = \"a.pem\", key = \"a.key\"}")
			text, err := os.ReadFile(filepath.Join(s.dir, "lwango.conf"))
			if err != nil {
				t.Fatal(err)
			}
			sessions := oneSession{tls.NewLRUClientSessionCache(1)}
			resumed := func() bool {
				c := &tls.Config{ServerName: "a.test", RootCAs: s.ca.Pool, MaxVersion: version, ClientSessionCache: sessions}
				conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", s.Addresses()[0], c)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Read(make([]byte, 1)); err != nil { // behind the ticket of TLS 1.3
					t.Fatal(err)
				}
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
			s.write("lwango.conf", "grace = \"9s\"\n"+string(text))
			if err := s.Reload(); err != nil {
				t.Fatal(err)
			}
			if !resumed() {
				t.Errorf("%s: no session after a reload", tls.VersionName(version))
			}
		}
	}
}

// TestRenewAway: certificates are renewed in a process that has left their address to another one, and
// drains.
func TestRenewAway(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) { s.put("a", "a.test", 90*24*time.Hour) }, `tls = {cert = "a.pem", key = "a.key"}`)
	s.LeaveListeners()
	s.put("a", "a.test", 80*24*time.Hour)
	s.RenewCerts(time.Now())
	if !strings.Contains(s.log.String(), "certificate renewed") {
		t.Error("not renewed")
	}
}

// leaf is the certificate that put has written.
func (s *tlsServer) leaf(file string) *x509.Certificate {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, file+".pem"))
	if err != nil {
		s.t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		s.t.Fatal(err)
	}
	return leaf
}

package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// tlsServer is a server of certificates in a folder, with the log of the server.
type tlsServer struct {
	*running
	t   *testing.T
	dir string
	log *logtext.Buffer
	ca  *certs.Authority
}

// put writes a new certificate, and its key, for names, with spaces between them.
func (s *tlsServer) put(file, names string, valid time.Duration) {
	s.t.Helper()
	cert, key := s.ca.Files(s.ca.Issue(valid, strings.Fields(names)...))
	s.move(cert, file+".pem")
	s.move(key, file+".key")
}

// move gives a file its name in the server's folder.
func (s *tlsServer) move(from, to string) {
	s.t.Helper()
	must.Do(s.t, os.Rename(from, filepath.Join(s.dir, to)))
}

// replace gives a file of the server's folder another text, and another inode, whatever the
// resolution of times.
func (s *tlsServer) replace(file, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, file)
	must.Write(s.t, path+".new", text)
	s.move(path+".new", file)
}

// newTLS is a server that is still to start, in a folder of its own.
func newTLS(t *testing.T) *tlsServer {
	s := &tlsServer{t: t, dir: t.TempDir(), log: new(logtext.Buffer), ca: certs.New(t)}
	s.told()
	return s
}

// told shows the log at the end of a test that has failed.
func (s *tlsServer) told() {
	s.t.Cleanup(func() {
		if s.t.Failed() {
			s.t.Log(s.log.String())
		}
	})
}

// source is that of the server.
func (s *tlsServer) source() config.Source {
	src := source()
	src.File, src.Logger = filepath.Join(s.dir, "lwango.conf"), logtext.Logger(s.t, s.log)
	return src
}

func startTLS(t *testing.T, certificates func(s *tlsServer), keys string) *tlsServer {
	t.Helper()
	s := newTLS(t)
	certificates(s)
	s.running = serve(t, s.source(),
		"threads = 3\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+keys+"\n"+
			route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
	return s
}

// connect shakes hands, and returns the name of the server's certificate.
func (s *tlsServer) connect(c *tls.Config) (name string, err error) {
	c.RootCAs = s.ca.Pool
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", s.at, c)
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
	kept := must.Get(tls.Dial("tcp", s.at, &tls.Config{ServerName: "a.test", RootCAs: s.ca.Pool}))(t)
	defer kept.Close()
	names := func(when, want string) {
		t.Helper()
		var got []string
		for _, sni := range []string{"a.test", "b.test"} {
			name := must.Get(s.connect(&tls.Config{ServerName: sni, InsecureSkipVerify: true}))(t)
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

	key := filepath.Join(s.dir, "a.key")
	old := must.Read(t, key)
	s.put("a", "a2.test", 90*24*time.Hour)
	now := must.Read(t, key)
	s.replace("a.key", old)
	look(`msg="certificate cannot be renewed, the old one stays"`, "a.pem", "does not match")
	look() // once
	names("with a key of another", "a.test a.test")
	s.replace("a.key", now)
	look("a2.test")
	names("with both", "a2.test a2.test")
	must.Do(t, os.Remove(filepath.Join(s.dir, "a.pem")))
	look("no such file")
	look()
	names("without a file", "a2.test a2.test")
	must.Do(t, syscall.Mkfifo(filepath.Join(s.dir, "a.pem"), 0o600))
	look("a.pem: not a regular file") // and nobody waits for its writer
	names("with a pipe", "a2.test a2.test")

	must.Get(kept.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")))(t)
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
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	now := time.Now()
	for i := range 3 { // the fault is said once
		s.RenewCerts(now.Add(time.Duration(i) * time.Minute))
	}
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if n := strings.Count(s.log.String(), "too many open files"); n != 1 {
		t.Errorf("logged %d times, want once", n)
	}
	s.RenewCerts(now.Add(3 * time.Minute))
	if name, err := s.connect(&tls.Config{ServerName: "new.test"}); name != "new.test" || err != nil {
		t.Errorf("%q, %v, want the new certificate", name, err)
	}
}

// TestCertStatus: the status page knows when certificates expire, also after they have been
// renewed.
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
	read := func(path string) string {
		t.Helper()
		resp := must.Get(client.Get("http://x/status/" + path))(t)
		return must.Body(t, resp)
	}
	check := func(when string) {
		t.Helper()
		var got metrics.Snapshot
		must.Do(t, json.Unmarshal([]byte(read("json")), &got))
		a, b := s.leaf("a"), s.leaf("b")
		const warned = -14 * 24 * time.Hour
		want := []metrics.Certificate{
			{File: filepath.Join(s.dir, "a.pem"), Names: a.DNSNames, Until: a.NotAfter,
				WarnFrom: a.NotAfter.Add(warned)},
			{File: filepath.Join(s.dir, "b.pem"), Names: b.DNSNames, Until: b.NotAfter,
				WarnFrom: b.NotAfter.Add(warned)}}
		if !reflect.DeepEqual(got.Certificates, want) {
			t.Errorf("%s: got %v, want %v", when, got.Certificates, want)
		}
		line := fmt.Sprintf("lwango_certificate_not_after_seconds{file=%q} %g\n", want[0].File,
			float64(a.NotAfter.Unix()))
		if text := read("metrics"); !strings.Contains(text, line) {
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
	},
		`tls = [{cert = "a.pem", key = "a.key"}, {cert = "b.pem", key = "b.key"}, {cert = "c.pem", key = "c.key"}]`)
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
	must.Do(t, s.Reload())
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

// TestWrongChain: a certificate that is not signed by the one behind it in its file is warned of,
// at the start, when it comes by a renewal, and once a day.
func TestWrongChain(t *testing.T) {
	chain := func(s *tlsServer, signers ...string) {
		t.Helper()
		s.put("a", "a.test", 90*24*time.Hour)
		all := must.Read(t, filepath.Join(s.dir, "a.pem"))
		for _, path := range signers {
			all += must.Read(t, path)
		}
		s.replace("a.pem", all)
	}
	stranger := certs.New(t).File
	s := startTLS(t, func(s *tlsServer) { chain(s, stranger) },
		`tls = {cert = "a.pem", key = "a.key"}`)
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

// TestRenewAway: certificates are renewed in a process that has left their address to another one,
// and drains.
func TestRenewAway(t *testing.T) {
	s := startTLS(t, func(s *tlsServer) { s.put("a", "a.test", 90*24*time.Hour) },
		`tls = {cert = "a.pem", key = "a.key"}`)
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
	block, _ := pem.Decode([]byte(must.Read(s.t, filepath.Join(s.dir, file+".pem"))))
	leaf := must.Get(x509.ParseCertificate(block.Bytes))(s.t)
	return leaf
}

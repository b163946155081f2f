package server_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	for from, to := range map[string]string{cert: file + ".pem", key: file + ".key"} {
		if err := os.Rename(from, filepath.Join(s.dir, to)); err != nil {
			s.t.Fatal(err)
		}
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
	s.write("lwango.conf", "threads = 1\n[[listener]]\naddress = \"127.0.0.1:0\"\n"+keys+"\n"+
		route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
	src := source()
	src.File, src.Logger = filepath.Join(s.dir, "lwango.conf"), slog.New(slog.NewTextHandler(s.log, nil))
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

	if _, err := kept.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := kept.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection of before: %v", err)
	}
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
}

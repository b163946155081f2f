package server_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/certs"
)

// acmeServer is a server that obtains certificates in a folder from an authority.
type acmeServer struct {
	*tlsServer
	ca *acme.Server
}

// startACME starts a server in a folder; keys are those of [tls] acme, and more is for its
// listener.
func startACME(t *testing.T, ca *acme.Server, dir, keys, more string) *acmeServer {
	t.Helper()
	return startACMEBy(t, server.Start, ca, dir, keys, more)
}

// obtain and txtRecords are for the servers that startACME starts.
var (
	obtain     certs.Options
	txtRecords certs.TXTRecords
)

func startACMEBy(t *testing.T, start func(config.Source, *config.Config) (*server.Server, error),
	ca *acme.Server, dir, keys, more string) *acmeServer {
	t.Helper()
	s := &acmeServer{&tlsServer{t: t, dir: dir, log: new(logtext.Buffer), ca: ca.CA}, ca}
	s.told()
	src := s.source()
	src.Obtain, src.DNS = obtain, txtRecords
	src.Obtain.Authorities = ca.CA.Pool
	ca.Verify("")
	s.running = serveBy(t, start, src, s.text(keys, more))
	ca.Verify(s.at)
	return s
}

func (s *acmeServer) text(keys, more string) string {
	text := ""
	if keys != "" {
		text = fmt.Sprintf("[tls]\nacme = { directory = %q, %s }\n", s.ca.URL, keys)
	}
	return "threads = 2\n" + text + "[[listener]]\naddress = \"127.0.0.1:0\"\n" + more + "\n" +
		route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n")
}

// acmeFile is where a server of that folder has the certificate of a domain.
func acmeFile(ca *acme.Server, dir, domain string) string {
	return filepath.Join(dir, "acme",
		strings.NewReplacer("https://", "", ":", "-", "/", "-").Replace(ca.URL), domain+".pem")
}

// await waits until a client that asks for a name gets a certificate for it.
func (s *acmeServer) await(name string) {
	s.t.Helper()
	for {
		if got, err := s.ask(name); err == nil && got == name {
			return
		}
		select {
		case <-s.Obtained():
			s.RenewCerts(time.Now())
		case <-time.After(wait.Patience):
			s.t.Fatalf("no certificate for %s:\n%s", name, s.log.String())
		}
	}
}

// ask makes a request, and returns the name of the server's certificate.
func (s *acmeServer) ask(sni string) (name string, err error) {
	return s.connect(&tls.Config{ServerName: sni})
}

// logged waits for a line of the log.
func (s *tlsServer) logged(text string) {
	s.t.Helper()
	wait.Until(s.t, text, func() bool { return strings.Contains(s.log.String(), text) })
}

const both = `email = "a@example.org", domains = ["a.test", "B.test"]`

// TestACME: a server that has no certificate starts, obtains what it needs, and serves it; another
// one with the same folder needs nothing more.
func TestACME(t *testing.T) {
	leak.Goroutines(t)
	ca := acme.New(t)
	dir := t.TempDir()
	hold := make(chan struct{})
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "directory" {
			<-hold
		}
		return nil
	})
	s := startACME(t, ca, dir, both, "tls = { acme = true }")
	const refused = "unrecognized name"
	for _, sni := range []string{"a.test", "A.Test", "c.test", ""} {
		_, err := s.connect(&tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("%q, before there is a certificate: %v, want %s", sni, err, refused)
		}
	}
	s.logged("its certificate is still to be obtained\" domain=a.test")
	close(hold)
	s.await("a.test")
	s.await("b.test")
	// As with certificates of the operator's own, the first one is for other names.
	if name, err := s.connect(
		&tls.Config{ServerName: "c.test", InsecureSkipVerify: true}); name != "a.test" {
		t.Errorf("for another name: %s, %v", name, err)
	}
	s.end()
	if orders := ca.Asked("newOrder"); orders != 2 {
		t.Errorf("%d orders for two names", orders)
	}
	if got := fmt.Sprint(ca.Contacts()); got != "[mailto:a@example.org]" {
		t.Errorf("contacts: %s", got)
	}
	err := filepath.WalkDir(filepath.Join(dir, "acme"),
		func(path string, d os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: mode %v", path, info.Mode())
			}
			return err
		})
	if err != nil {
		t.Error(err)
	}

	s = startACME(t, ca, dir, both, "tls = { acme = true }\nstrict_sni = true\nmin_version = \"1.3\"")
	for _, name := range []string{"a.test", "b.test"} {
		if got, err := s.ask(name); got != name {
			t.Errorf("%s with the same folder: %q, %v", name, got, err)
		}
	}
	s.end()
	if n := ca.Asked("directory"); n != 1 {
		t.Errorf("the authority was asked %d times, want once", n)
	}

	// A file that is of no use is replaced, and the others stay.
	files, err := filepath.Glob(filepath.Join(dir, "acme", "*", "a.test.pem"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	must.Do(t, os.Truncate(files[0], 300))
	s = startACME(t, ca, dir, both, "tls = { acme = true }")
	if got, err := s.ask("b.test"); got != "b.test" {
		t.Errorf("b.test: %q, %v", got, err)
	}
	s.await("a.test")
	s.end()
	if orders := ca.Asked("newOrder"); orders != 3 {
		t.Errorf("%d orders, want one more for what was damaged", orders)
	}
}

// TestACMEChallenge: a connection that is for the proof of a name is for nothing else, whatever it
// asks for, and without a challenge there is none.
func TestACMEChallenge(t *testing.T) {
	ca := acme.New(t)
	proving, proved := make(chan struct{}), make(chan struct{})
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "verify" {
			close(proving)
			<-proved
		}
		return nil
	})
	s := startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	<-proving
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := must.Get(tls.Dial("tcp", s.at, &tls.Config{ServerName: "A.test", MaxVersion: version,
			NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true}))(t)
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")) // may be too late already
		if got, err := io.ReadAll(c); len(got) > 0 ||
			err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: a request beside the proof: %q, %v", tls.VersionName(version), got, err)
		}
		c.Close()
	}
	close(proved)
	s.await("a.test")
	_, err := tls.Dial("tcp", s.at, &tls.Config{ServerName: "a.test",
		NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true})
	if err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("without a challenge: %v", err)
	}
}

// TestACMERenewal: a certificate is renewed before its end, and connections stay; a bad nonce is no
// obstacle.
func TestACMERenewal(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	state := t.TempDir() // as systemd says it
	t.Setenv("STATE_DIRECTORY", state+":/none")
	ca.Valid(-time.Hour, 20*time.Minute) // the last third of its time
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	s.end()
	ca.Valid(-time.Hour, 90*24*time.Hour)
	ca.BadNonces(6)
	s = startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	kept := must.Get(tls.Dial("tcp", s.at, &tls.Config{ServerName: "a.test", RootCAs: ca.CA.Pool}))(t)
	defer kept.Close()
	select {
	case <-s.Obtained():
		s.RenewCerts(time.Now())
	case <-time.After(wait.Patience):
		t.Fatal("not renewed")
	}
	c := must.Get(tls.Dial("tcp", s.at, &tls.Config{ServerName: "a.test", RootCAs: ca.CA.Pool}))(t)
	defer c.Close()
	if left := time.Until(c.ConnectionState().PeerCertificates[0].NotAfter); left < 24*time.Hour {
		t.Errorf("the certificate is good for %v", left)
	}
	must.Get(kept.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")))(t)
	if _, err := kept.Read(make([]byte, 1)); err != nil {
		t.Errorf("a connection of before: %v", err)
	}
	if n := ca.Asked("newOrder"); n != 2 {
		t.Errorf("%d orders", n)
	}
	if files, err := filepath.Glob(filepath.Join(state, "acme", "*", "a.test.pem")); len(files) != 1 {
		t.Errorf("files: %q, %v", files, err)
	}
}

// TestACMERefused: what an authority refuses is logged with its reason, and asked for again after
// pauses that grow, or as long as the authority says.
func TestACMERefused(t *testing.T) {
	leak.Goroutines(t)
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 50 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	reason := &acme.Problem{Status: 403, Type: "unauthorized", Detail: "because we say so"}
	limited := &acme.Problem{Status: 429, Type: "rateLimited", Detail: "too many", RetryAfter: "3600"}
	for _, test := range []refusal{
		{"directory", reason, true, []string{"because we say so"}},
		{"newAccount", reason, true, []string{"because we say so"}},
		{"newOrder", reason, true, []string{"because we say so", "domains=[a.test]"}},
		{"verify", reason, true, []string{"authorization error for a.test", "because we say so"}},
		{"finalize", reason, true, []string{"because we say so"}},
		{"cert", reason, true, []string{"because we say so"}},
		{"newOrder", limited, false, []string{"too many", "next_attempt_in=1h0m0s"}},
		{"directory", limited, false,
			[]string{"too many", "domains=\"[a.test b.test]\"", "next_attempt_in=1h0m0s"}},
	} {
		t.Run(fmt.Sprint(test.step, test.problem.Status), test.check)
	}
}

// TestACMEDown: an authority that is down is asked again a few times, which takes six seconds, and
// then when it says.
func TestACMEDown(t *testing.T) {
	t.Parallel()
	down := &acme.Problem{Status: 503, Type: "serverInternal", Detail: "maintenance",
		RetryAfter: "3600"}
	refusal{"newOrder", down, false, []string{"maintenance", "next_attempt_in=1h0m0s"}}.check(t)
}

// refusal is what an authority refuses in the first of two orders.
type refusal struct {
	step    string
	problem *acme.Problem
	again   bool // soon
	log     []string
}

func (r refusal) check(t *testing.T) {
	ca := acme.New(t)
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == r.step && name != "b.test" {
			return r.problem
		}
		return nil
	})
	s := startACME(t, ca, t.TempDir(), both, "tls = { acme = true }")
	for _, text := range r.log {
		s.logged(text)
	}
	if r.step != "directory" && r.step != "newAccount" {
		s.await("b.test") // one name does not keep the other from its certificate
	}
	before := ca.Asked(r.step)
	if r.again {
		wait.Until(t, "another attempt", func() bool { return ca.Asked(r.step) > before+2 })
		ca.Refuse(nil)
		s.await("a.test")
		s.await("b.test")
	}
}

// TestACMEUnwritten: what cannot be written at first is not ordered again.
func TestACMEUnwritten(t *testing.T) {
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 50 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	dir := t.TempDir()
	file := acmeFile(ca, dir, "a.test")
	must.Do(t, os.MkdirAll(file, 0o700))
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.logged("certificate cannot be obtained")
	s.log.Reset()
	s.logged("file exists")
	must.Do(t, os.Remove(file))
	s.await("a.test")
	if n := ca.Asked("newOrder"); n != 1 {
		t.Errorf("%d orders, want one", n)
	}
}

// TestACMENoAuthority: without an authority, or with one that does not answer, the server serves
// and ends as usual.
func TestACMENoAuthority(t *testing.T) {
	leak.Goroutines(t)
	ca := acme.New(t)
	asked, over := make(chan struct{}), make(chan struct{})
	ca.Refuse(func(string, string) *acme.Problem {
		close(asked)
		<-over
		return nil
	})
	defer close(over)
	s := startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	<-asked
	s.end()

	ca.URL = "https://" + refuse.Address(t) + "/dir"
	s = startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	s.logged("connection refused")
	s.logged("next_attempt_in=1m0s")
	s.end()
}

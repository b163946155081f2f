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

	"github.com/lwango/lwango/internal/certs"
	"github.com/lwango/lwango/internal/config"
	"github.com/lwango/lwango/internal/server"
	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

// acmeServer is a server that obtains certificates in a folder from an authority.
type acmeServer struct {
	*tlsServer
	ca *acme.Server
}

// startACME starts a server in a folder; keys are those of [tls] acme, and more is for its listener.
func startACME(t *testing.T, ca *acme.Server, dir, keys, more string) *acmeServer {
	t.Helper()
	return startACMEBy(t, server.Start, ca, dir, keys, more)
}

// obtain is for the servers that startACME starts.
var obtain certs.Options

func startACMEBy(t *testing.T, start func(config.Source, *config.Config) (*server.Server, error),
	ca *acme.Server, dir, keys, more string) *acmeServer {
	t.Helper()
	s := &acmeServer{&tlsServer{t: t, dir: dir, log: new(logtext.Buffer), ca: ca.CA}, ca}
	s.configure(keys, more)
	src := source()
	src.File, src.Logger = filepath.Join(dir, "lwango.conf"), logtext.Logger(t, s.log)
	src.Obtain = obtain
	src.Obtain.Authorities = ca.CA.Pool
	ca.Verify("")
	c, err := src.Load()
	if err == nil {
		s.Server, err = start(src, c)
	}
	if err != nil {
		t.Fatal(err)
	}
	ca.Verify(s.Addresses()[0])
	return s
}

func (s *acmeServer) configure(keys, more string) {
	text := ""
	if keys != "" {
		text = fmt.Sprintf("[tls]\nacme = { directory = %q, %s }\n", s.ca.URL, keys)
	}
	s.write("lwango.conf", "threads = 2\n"+text+"[[listener]]\naddress = \"127.0.0.1:0\"\n"+more+"\n"+
		route("prefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"))
}

func (s *acmeServer) close() {
	s.t.Helper()
	s.Stop()
	if err := s.Wait(); err != nil {
		s.t.Error(err)
	}
	if s.t.Failed() {
		s.t.Log(s.log.String())
	}
}

// acmeFile is where a server of that folder has the certificate of a domain.
func acmeFile(ca *acme.Server, dir, domain string) string {
	return filepath.Join(dir, "acme", strings.NewReplacer("https://", "", ":", "-", "/", "-").Replace(ca.URL),
		domain+".pem")
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
	defer leak.Goroutines(t)()
	ca := acme.New(t)
	defer ca.Close()
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
	if name, err := s.connect(&tls.Config{ServerName: "c.test", InsecureSkipVerify: true}); name != "a.test" {
		t.Errorf("for another name: %s, %v", name, err)
	}
	s.close()
	if orders := ca.Asked("newOrder"); orders != 2 {
		t.Errorf("%d orders for two names", orders)
	}
	if got := fmt.Sprint(ca.Contacts()); got != "[mailto:a@example.org]" {
		t.Errorf("contacts: %s", got)
	}
	err := filepath.WalkDir(filepath.Join(dir, "acme"), func(path string, d os.DirEntry, err error) error {
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
	s.close()
	if n := ca.Asked("directory"); n != 1 {
		t.Errorf("the authority was asked %d times, want once", n)
	}

	// A file that is of no use is replaced, and the others stay.
	files, err := filepath.Glob(filepath.Join(dir, "acme", "*", "a.test.pem"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 300); err != nil {
		t.Fatal(err)
	}
	s = startACME(t, ca, dir, both, "tls = { acme = true }")
	if got, err := s.ask("b.test"); got != "b.test" {
		t.Errorf("b.test: %q, %v", got, err)
	}
	s.await("a.test")
	s.close()
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
	defer s.close()
	<-proving
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c, err := tls.Dial("tcp", s.Addresses()[0], &tls.Config{ServerName: "A.test", MaxVersion: version,
			NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		_, _ = c.Write([]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")) // may be too late already
		if got, err := io.ReadAll(c); len(got) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s: a request beside the proof: %q, %v", tls.VersionName(version), got, err)
		}
		c.Close()
	}
	close(proved)
	s.await("a.test")
	_, err := tls.Dial("tcp", s.Addresses()[0], &tls.Config{ServerName: "a.test",
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
	s.close()
	ca.Valid(-time.Hour, 90*24*time.Hour)
	ca.BadNonces(6)
	s = startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	defer s.close()
	kept, err := tls.Dial("tcp", s.Addresses()[0], &tls.Config{ServerName: "a.test", RootCAs: ca.CA.Pool})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	select {
	case <-s.Obtained():
		s.RenewCerts(time.Now())
	case <-time.After(wait.Patience):
		t.Fatal("not renewed")
	}
	c, err := tls.Dial("tcp", s.Addresses()[0], &tls.Config{ServerName: "a.test", RootCAs: ca.CA.Pool})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if left := time.Until(c.ConnectionState().PeerCertificates[0].NotAfter); left < 24*time.Hour {
		t.Errorf("the certificate is good for %v", left)
	}
	if _, err := kept.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
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
	defer leak.Goroutines(t)()
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 50 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	reason := &acme.Problem{Status: 403, Type: "unauthorized", Detail: "because we say so"}
	limited := &acme.Problem{Status: 429, Type: "rateLimited", Detail: "too many", RetryAfter: "3600"}
	down := &acme.Problem{Status: 503, Type: "serverInternal", Detail: "maintenance", RetryAfter: "3600"}
	for _, test := range []struct {
		step    string
		problem *acme.Problem
		again   bool // soon
		log     []string
	}{
		{"directory", reason, true, []string{"because we say so"}},
		{"newAccount", reason, true, []string{"because we say so"}},
		{"newOrder", reason, true, []string{"because we say so", "domains=[a.test]"}},
		{"verify", reason, true, []string{"authorization error for a.test", "because we say so"}},
		{"finalize", reason, true, []string{"because we say so"}},
		{"cert", reason, true, []string{"because we say so"}},
		{"newOrder", limited, false, []string{"too many", "next_attempt_in=1h0m0s"}},
		{"directory", limited, false, []string{"too many", "domains=\"[a.test b.test]\"", "next_attempt_in=1h0m0s"}},
		{"newOrder", down, false, []string{"maintenance", "next_attempt_in=1h0m0s"}},
	} {
		t.Run(fmt.Sprint(test.step, test.problem.Status), func(t *testing.T) {
			ca := acme.New(t)
			defer ca.Close()
			ca.Refuse(func(step, name string) *acme.Problem {
				if step == test.step && name != "b.test" {
					return test.problem
				}
				return nil
			})
			s := startACME(t, ca, t.TempDir(), both, "tls = { acme = true }")
			defer s.close()
			for _, text := range test.log {
				s.logged(text)
			}
			if test.step != "directory" && test.step != "newAccount" {
				s.await("b.test") // one name does not keep the other from its certificate
			}
			before := ca.Asked(test.step)
			if test.again {
				wait.Until(t, "another attempt", func() bool { return ca.Asked(test.step) > before+2 })
				ca.Refuse(nil)
				s.await("a.test")
				s.await("b.test")
			}
		})
	}
}

// TestACMEUnwritten: what cannot be written at first is not ordered again.
func TestACMEUnwritten(t *testing.T) {
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 50 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	dir := t.TempDir()
	file := acmeFile(ca, dir, "a.test")
	if err := os.MkdirAll(file, 0o700); err != nil {
		t.Fatal(err)
	}
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	defer s.close()
	s.logged("certificate cannot be obtained")
	s.log.Reset()
	s.logged("file exists")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.await("a.test")
	if n := ca.Asked("newOrder"); n != 1 {
		t.Errorf("%d orders, want one", n)
	}
}

// TestACMENoAuthority: without an authority, or with one that does not answer, the server serves and
// ends as usual.
func TestACMENoAuthority(t *testing.T) {
	defer leak.Goroutines(t)()
	ca := acme.New(t)
	defer ca.Close()
	asked, over := make(chan struct{}), make(chan struct{})
	ca.Refuse(func(string, string) *acme.Problem {
		close(asked)
		<-over
		return nil
	})
	defer close(over)
	s := startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	<-asked
	s.close()

	ca.URL = "https://" + refuse.Address(t) + "/dir"
	s = startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	s.logged("connection refused")
	s.logged("next_attempt_in=1m0s")
	s.close()
}

// TestACMEReload: a reload begins to obtain, goes on as it was where nothing has changed, and ends.
func TestACMEReload(t *testing.T) {
	defer leak.Goroutines(t)()
	ca := acme.New(t)
	defer ca.Close()
	dir := t.TempDir()
	own := &tlsServer{t: t, dir: dir, ca: ca.CA}
	own.put("own", "own.test", 90*24*time.Hour)
	const plain = `{ cert = "own.pem", key = "own.key" }`
	s := startACME(t, ca, dir, "", "tls = "+plain)
	defer s.close()
	reload := func(keys, more string) {
		t.Helper()
		s.configure(keys, more)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	reload(`domains = "a.test"`, "tls = [{ acme = true }, "+plain+"]")
	s.await("a.test")
	if name, err := s.ask("own.test"); name != "own.test" {
		t.Errorf("the operator's own: %q, %v", name, err)
	}
	reload(`domains = "a.test"`, "tls = [{ acme = true }, "+plain+"]\nmin_version = \"1.3\"")
	if name, err := s.ask("a.test"); name != "a.test" {
		t.Errorf("after a reload: %q, %v", name, err)
	}
	// What has failed for now is not asked for again because of a reload.
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "verify" {
			return &acme.Problem{Status: 403, Type: "unauthorized", Detail: "no"}
		}
		return nil
	})
	reload(both, "tls = { acme = true }")
	s.logged("certificate cannot be obtained")
	before := ca.Asked("newOrder")
	for range 3 {
		reload(both, "tls = { acme = true }\nmin_version = \"1.3\"")
	}
	if n := ca.Asked("newOrder"); n != before {
		t.Errorf("%d orders more after reloads", n-before)
	}
	// An error of a reload leaves everything as it is.
	s.configure(`domains = "*.test"`, "tls = { acme = true }")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "wildcard") {
		t.Errorf("a wildcard: %v", err)
	}
	if name, err := s.ask("a.test"); name != "a.test" {
		t.Errorf("after a reload that was refused: %q, %v", name, err)
	}
	reload("", "tls = "+plain)
	if name, err := s.connect(&tls.Config{ServerName: "a.test", InsecureSkipVerify: true}); name != "own.test" {
		t.Errorf("without acme: %q, %v", name, err)
	}
}

// TestACMEReloadUnread: a reload keeps the certificate in force whose file cannot be read just then.
func TestACMEReloadUnread(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	defer s.close()
	s.await("a.test")
	files, err := filepath.Glob(filepath.Join(dir, "acme", "*", "a.test.pem"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	file := files[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what  string
		leave func() error // in the place of the file
	}{
		{"too many levels of symbolic links", func() error { return os.Symlink(file, file) }},
		{"no such file", func() error { return nil }},
		{"failed to find any PEM data", func() error { return os.WriteFile(file, nil, 0o600) }},
	} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := test.leave(); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time, what is in force was kept the first time
			s.log.Reset()
			if err := s.Reload(); err != nil {
				t.Errorf("%s: %v", test.what, err)
			}
			if name, err := s.ask("a.test"); name != "a.test" {
				t.Errorf("%s: %q, %v", test.what, name, err)
			}
			if log := s.log.String(); !strings.Contains(log, "the one in force stays") ||
				!strings.Contains(log, test.what) {
				t.Errorf("%s is not logged: %s", test.what, log)
			}
		}
		s.write(file[len(dir)+1:], string(text))
		s.log.Reset()
		s.RenewCerts(time.Now())
		s.logged("certificate obtained")
	}
}

// TestACMEStop: a server that stops takes what the authority signs at that moment, and waits for it
// but a while.
func TestACMEStop(t *testing.T) {
	defer leak.Goroutines(t)()
	for _, step := range []string{"finalize", "cert"} {
		ca := acme.New(t)
		dir := t.TempDir()
		asked, answer := make(chan struct{}), make(chan struct{})
		ca.Refuse(func(at, name string) *acme.Problem {
			if at == step {
				close(asked)
				<-answer
			}
			return nil
		})
		s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
		<-asked
		s.Stop()
		close(answer)
		if err := s.Wait(); err != nil {
			t.Error(err)
		}
		ca.Refuse(nil)
		s = startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
		if name, err := s.ask("a.test"); name != "a.test" {
			t.Errorf("stopped at %s: %q, %v", step, name, err)
		}
		s.close()
		ca.Close()
	}

	obtain = certs.Options{FinishLimit: time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	defer ca.Close()
	asked, over := make(chan struct{}), make(chan struct{})
	defer close(over)
	ca.Refuse(func(at, name string) *acme.Problem {
		if at == "cert" {
			close(asked)
			<-over
		}
		return nil
	})
	s := startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	<-asked
	s.close()
}

// TestACMELeftovers: what a process that was killed has left in the folder, with keys, is removed,
// and nothing else: another process may write there just now.
func TestACMELeftovers(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	folder := filepath.Dir(acmeFile(ca, dir, "a.test"))
	if err := os.MkdirAll(filepath.Join(folder, ".new-1"), 0o700); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-time.Hour)
	for _, name := range []string{".new-2", ".new-3", "new-4", "target"} {
		path := filepath.Join(folder, name)
		err := os.WriteFile(path, []byte("x"), 0o600)
		if err == nil && name != ".new-3" {
			err = os.Chtimes(path, past, past)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("target", filepath.Join(folder, ".new-5")); err != nil {
		t.Fatal(err)
	}
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	s.close()
	left, err := os.ReadDir(folder)
	var names []string
	for _, entry := range left {
		names = append(names, entry.Name())
	}
	if got := strings.Join(names, " "); got != ".new-1 .new-3 .new-5 a.test.pem account.key new-4 target" {
		t.Errorf("left: %s, %v", got, err)
	}
}

// TestACMEUpgrade: the new process of an upgrade obtains nothing before it has taken over: until then
// the old one does.
func TestACMEUpgrade(t *testing.T) {
	ca := acme.New(t)
	told, news, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	defer news.Close()
	s := startACMEBy(t, func(src config.Source, c *config.Config) (*server.Server, error) {
		return server.StartBehind(news, src, c)
	}, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	defer s.close()
	if s.Obtaining() {
		t.Error("obtains before it takes over")
	}
	s.TakeOver()
	s.await("a.test")
}

// TestACMESettings: what is wrong with the settings is said, with its place.
func TestACMESettings(t *testing.T) {
	const listener = "[[listener]]\naddress = \"*:443\"\ntls = { acme = true }\n"
	long := strings.Repeat("a", 64)
	for _, test := range []struct{ name, text, want string }{
		{"no name", "[tls]\nacme = {}\n" + listener, "t.conf:2: tls.acme.domains: expected the names that certificates are for"},
		{"no letter of ASCII", "[tls]\nacme = { domains = \"\u212a.test\" }\n" + listener,
			"t.conf:2: tls.acme.domains: \"\u212a.test\": expected a name such as example.org; what is not ASCII is written xn--"},
		{"an empty list", "[tls.acme]\ndomains = []\n" + listener, "t.conf:2: tls.acme.domains: expected the names that certificates are for"},
		{"addresses", "[tls.acme]\ndomains = [\"192.0.2.1\", \"[::1]\"]\n" + listener,
			"t.conf:2: tls.acme.domains: \"192.0.2.1\": expected a name, and no address\n" +
				"t.conf:2: tls.acme.domains: \"[::1]\": expected a name, and no address"},
		{"a wildcard", "[tls.acme]\ndomains = \"*.example.org\"\n" + listener,
			"t.conf:2: tls.acme.domains: \"*.example.org\": a wildcard needs another challenge, dns-01; expected the names one by one"},
		{"no names at all", "[tls.acme]\ndomains = [\"a..b\", \"-a\", \"b/c\", \"" + long + "\", \"\", \"bücher.example\"]\n" + listener,
			"is not ASCII is written xn--"},
		{"twice", "[tls.acme]\ndomains = [\"a.example\", \"A.example\"]\n" + listener,
			"t.conf:2: tls.acme.domains: \"A.example\" is named twice"},
		{"no address for letters", "[tls.acme]\ndomains = \"a.example\"\nemail = \"A <a@b>\"\n" + listener,
			"t.conf:3: tls.acme.email: expected an address such as admin@example.org, found \"A <a@b>\""},
		{"an empty one", "[tls.acme]\ndomains = \"a.example\"\nemail = \"\"\n" + listener,
			"t.conf:3: tls.acme.email: expected an address such as admin@example.org, found \"\""},
		{"http", "[tls.acme]\ndomains = \"a.example\"\ndirectory = \"http://127.0.0.1/dir\"\n" + listener,
			"t.conf:3: tls.acme.directory: expected a URL with https:// (RFC 8555 section 6.1), such as https://acme-v02.api.letsencrypt.org/directory"},
		{"no folder", "[tls.acme]\ndomains = \"a.example\"\ncache = \"/proc/none/at/all\"\n" + listener,
			"t.conf:3: tls.acme.cache: create a file in /proc/none/at: no such file or directory"},
		{"a file", "[tls.acme]\ndomains = \"a.example\"\ncache = \"/etc/passwd\"\n" + listener,
			"t.conf:3: tls.acme.cache: create a file in /etc/passwd/acme-v02.api.letsencrypt.org-directory: not a directory"},
		{"no listener", "[tls.acme]\ndomains = \"a.example\"\n[[listener]]\naddress = \"*:80\"\n",
			"t.conf:1: tls.acme: no [[listener]] has tls = { acme = true }, and it takes one to obtain certificates"},
		{"only a listener", listener, "t.conf:3: listener.tls.acme: needs acme = { domains = [...] } in the table [tls]"},
		{"a file as well", "[tls.acme]\ndomains = \"a.example\"\n[[listener]]\naddress = \"*:443\"\ntls = { acme = true, key = \"a.key\" }\n",
			"t.conf:5: listener.tls.acme: stands in the place of cert and key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			_, err := source().Parse("t.conf", test.text)
			if got := fmt.Sprint(err); !strings.Contains(got, test.want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
			if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
				t.Errorf("a check has made %v, %v", left, err)
			}
		})
	}
}

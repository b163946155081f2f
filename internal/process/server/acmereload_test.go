package server_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/certs"
	"golang.org/x/sys/unix"
)

// TestACMEReload: a reload begins to obtain, goes on as it was where nothing has changed, and ends.
func TestACMEReload(t *testing.T) {
	leak.Goroutines(t)
	ca := acme.New(t)
	dir := t.TempDir()
	own := &tlsServer{t: t, dir: dir, ca: ca.CA}
	own.put("own", "own.test", 90*24*time.Hour)
	const plain = `{ cert = "own.pem", key = "own.key" }`
	s := startACME(t, ca, dir, "", "tls = "+plain)
	reload := func(keys, more string) { t.Helper(); s.reload(s.text(keys, more)) }
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
	s.write(s.text(`domains = "*.test"`, "tls = { acme = true }"))
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "wildcard") {
		t.Errorf("a wildcard: %v", err)
	}
	if name, err := s.ask("a.test"); name != "a.test" {
		t.Errorf("after a reload that was refused: %q, %v", name, err)
	}
	reload("", "tls = "+plain)
	if name, err := s.connect(
		&tls.Config{ServerName: "a.test", InsecureSkipVerify: true}); name != "own.test" {
		t.Errorf("without acme: %q, %v", name, err)
	}
}

// TestACMEReloadUnread: a reload keeps the certificate in force whose file cannot be read just
// then.
func TestACMEReloadUnread(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	files, err := filepath.Glob(filepath.Join(dir, "acme", "*", "a.test.pem"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	file := files[0]
	text := must.Read(t, file)
	for _, test := range []struct {
		what  string
		leave func() error // in the place of the file
	}{
		{"too many levels of symbolic links", func() error { return os.Symlink(file, file) }},
		{"no such file", func() error { return nil }},
		{"failed to find any PEM data", func() error { return os.WriteFile(file, nil, 0o600) }},
	} {
		must.Do(t, os.Remove(file))
		must.Do(t, test.leave())
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
		s.replace(file[len(dir)+1:], text)
		s.log.Reset()
		s.RenewCerts(time.Now())
		s.logged("certificate obtained")
	}
}

// TestACMEStop: a server that stops takes what the authority signs at that moment, and waits for it
// but a while.
func TestACMEStop(t *testing.T) {
	leak.Goroutines(t)
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
		s.stop()
		close(answer)
		s.end()
		ca.Refuse(nil)
		s = startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
		if name, err := s.ask("a.test"); name != "a.test" {
			t.Errorf("stopped at %s: %q, %v", step, name, err)
		}
		s.end()
	}

	obtain = certs.Options{FinishLimit: time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
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
	s.end()
}

// TestACMELeftovers: what a process that was killed has left in the folder, with keys, is removed,
// and nothing else: another process may write there just now.
func TestACMELeftovers(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	folder := filepath.Dir(acmeFile(ca, dir, "a.test"))
	must.Do(t, os.MkdirAll(filepath.Join(folder, ".new-1"), 0o700))
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
	must.Do(t, os.Symlink("target", filepath.Join(folder, ".new-5")))
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	s.end()
	left, err := os.ReadDir(folder)
	var names []string
	for _, entry := range left {
		names = append(names, entry.Name())
	}
	if got := strings.Join(names,
		" "); got != ".new-1 .new-3 .new-5 a.test.pem account.key new-4 target" {
		t.Errorf("left: %s, %v", got, err)
	}
}

// TestACMEUpgrade: the new process of an upgrade obtains nothing before it has taken over: until
// then the old one does.
func TestACMEUpgrade(t *testing.T) {
	ca := acme.New(t)
	_, news := must.Pipe(t)
	s := startACMEBy(t, func(src config.Source, c *config.Config) (*server.Server, error) {
		return server.StartBehind(news, src, c)
	}, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	defer s.end()
	if s.Obtaining() {
		t.Error("obtains before it takes over")
	}
	s.TakeOver()
	s.await("a.test")
}

// TestACMETurns: while another process orders certificates for the folder, as at an upgrade,
// nothing is ordered.
func TestACMETurns(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	other := must.Get(os.Open(filepath.Dir(acmeFile(ca, dir, "a.test"))))(t)
	defer other.Close()
	wait.Until(t, "the end of the first order", func() bool {
		return unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
	})
	before := ca.Asked("newOrder")
	s.reload(s.text(both, "tls = { acme = true }"))
	s.logged("another process orders certificates")
	if n := ca.Asked("newOrder"); n != before {
		t.Errorf("%d orders beside another process", n-before)
	}
	other.Close()
	s.await("b.test")
}

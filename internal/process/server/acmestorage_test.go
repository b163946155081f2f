package server_test

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/certs"
)

// startSharing starts a server with a folder of its own, which shares its certificates by a broker.
func startSharing(t *testing.T, ca *acme.Server, dir string, b *broker.Broker, keys,
	more string) *acmeServer {
	t.Helper()
	return startACME(t, ca, dir, fmt.Sprintf("domains = \"a.test\", storage = %q%s", b.URL(), keys),
		more)
}

// TestACMEStorage: of two servers one orders, while the authority puts the challenge to the other
// one. Both have the certificate then, the account, and the keys of session tickets.
func TestACMEStorage(t *testing.T) {
	leak.Goroutines(t)
	b := broker.Start(t)
	obtain = certs.Options{StorageEvery: 20 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	for keys, more := range map[string]string{
		"": "tls = { acme = true }", `, challenges = "http-01"`: bothPorts} {
		b.Do("flushall")
		ca := acme.New(t)
		one := startSharing(t, ca, t.TempDir(), b, keys, more)
		ca.Verify("")
		wait.Until(t, "the first order", func() bool { return ca.Asked("newOrder") == 1 })
		other := startSharing(t, ca, t.TempDir(), b, keys, more)
		other.logged("another server orders certificates")
		if keys != "" {
			ca.VerifyHTTP(other.Addresses()[1])
		}
		one.await("a.test")
		other.await("a.test")
		if n := ca.Asked("newOrder"); n != 1 {
			t.Errorf("%d orders for two servers", n)
		}
		account := func(s *acmeServer) string {
			return must.Read(t, filepath.Join(filepath.Dir(acmeFile(ca, s.dir, "a.test")), "account.key"))
		}
		third := startSharing(t, ca, t.TempDir(), b, keys, more)
		third.await("a.test")
		ca.Valid(-time.Minute, 90*24*time.Hour)
		third.reload(third.text(fmt.Sprintf("domains = [\"a.test\", \"b.test\"], storage = %q%s",
			b.URL(), keys), more))
		if keys != "" {
			ca.VerifyHTTP(third.Addresses()[1])
		}
		third.await("b.test")
		if account(third) != account(one) {
			t.Error("the accounts differ")
		}
		wait.Until(t, "a session that both servers know", func() bool {
			cache := tls.NewLRUClientSessionCache(4)
			_, err := one.resumes("a.test", cache)
			resumed, err2 := other.resumes("a.test", cache)
			return err == nil && err2 == nil && resumed
		})
		one.end()
		other.end()
		third.end()
	}
}

// resumes makes a request, and reports whether it has resumed a session.
func (s *acmeServer) resumes(name string, sessions tls.ClientSessionCache) (yes bool, err error) {
	c, err := tls.Dial("tcp", s.at, &tls.Config{ServerName: name, RootCAs: s.ca.CA.Pool,
		ClientSessionCache: sessions})
	if err != nil {
		return false, err
	}
	defer c.Close()
	_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	if err == nil {
		_, err = c.Read(make([]byte, 1)) // and the ticket
	}
	return c.ConnectionState().DidResume, err
}

// TestACMEStorageAway: while the storage is away, a server serves what is in its folder and orders
// nothing; it goes on by itself when the storage is back.
func TestACMEStorageAway(t *testing.T) {
	leak.Goroutines(t)
	b := broker.Start(t)
	obtain = certs.Options{StorageEvery: 20 * time.Millisecond, LeastPause: 20 * time.Millisecond,
		MostPause: 50 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	dir := t.TempDir()
	const more = "tls = { acme = true }"
	s := startSharing(t, ca, dir, b, "", more)
	s.await("a.test")
	s.end()
	b.Kill()
	s = startACME(t, ca, dir, fmt.Sprintf("domains = [\"a.test\", \"b.test\"], storage = %q", b.URL()),
		more)
	if name, err := s.ask("a.test"); name != "a.test" {
		t.Errorf("while the storage is away: %q, %v", name, err)
	}
	s.logged("the storage of certificates is away")
	s.logged("certificate cannot be obtained")
	if n := ca.Asked("newOrder"); n != 1 {
		t.Errorf("%d orders, want one", n)
	}
	b.Restart()
	s.logged("the storage of certificates is back")
	s.await("b.test")
}

// TestACMEStorageSettings: what is wrong with storage is said, with its place.
func TestACMEStorageSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := source().Parse("t.conf", "[tls]\nacme = { domains = \"a.test\", "+
		"storage = \"http://x\" }\n[[listener]]\naddress = \"*:443\"\ntls = { acme = true }\n")
	if err == nil || !strings.HasPrefix(err.Error(), "t.conf:2: tls.acme.storage: ") {
		t.Errorf("%v, want an error at storage", err)
	}
}

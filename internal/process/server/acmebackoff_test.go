package server_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestACMEBackOffStays: a reload with another list of domains does not ask again at once for one
// that the authority has just refused.
func TestACMEBackOffStays(t *testing.T) {
	ca := acme.New(t)
	var refused atomic.Int32
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "newOrder" && name == "a.test" {
			refused.Add(1)
			return &acme.Problem{Status: 400, Type: "rejectedIdentifier", Detail: "never"}
		}
		return nil
	})
	s := startACME(t, ca, t.TempDir(), `domains = ["a.test"]`, "tls = { acme = true }")
	s.logged("certificate cannot be obtained")
	for _, domains := range []string{`domains = ["a.test", "b.test"]`,
		`domains = ["a.test", "c.test"]`} {
		s.reload(s.text(domains, "tls = { acme = true }"))
		s.await(domains[len(domains)-8 : len(domains)-2]) // it comes behind a.test
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("%d orders for the domain that was refused, want one", n)
	}
}

// TestACMEBackOffSurvives: a process that is started anew waits as long as the one before it would
// have, for that domain alone. A certificate ends that, another account, a file that is gone or
// damaged.
func TestACMEBackOffSurvives(t *testing.T) {
	ca := acme.New(t)
	var orders atomic.Int32
	refuse := func(step, name string) *acme.Problem {
		if step == "newOrder" && name == "a.test" {
			orders.Add(1)
			return &acme.Problem{Status: 400, Type: "rejectedIdentifier", Detail: "never"}
		}
		return nil
	}
	ca.Refuse(refuse)
	dir := t.TempDir()
	const one, two = `domains = ["a.test"]`, `domains = ["a.test", "b.test"]`
	file := strings.TrimSuffix(acmeFile(ca, dir, "a.test"), "pem") + "pause"
	start := func(domains, line string) *acmeServer {
		t.Helper()
		s := startACME(t, ca, dir, domains, "tls = { acme = true }")
		s.logged(line)
		return s
	}
	const failed, waits = "certificate cannot be obtained", "certificate is not asked for yet"
	start(one, failed).end()
	for range 3 {
		start(one, waits).end()
	}
	start(`email = "b@example.org", `+one, failed).end()
	if n := orders.Load(); n != 2 {
		t.Errorf("%d orders by another account, want one", n-1)
	}
	orders.Store(1)
	start(`email = "b@example.org", `+one, waits).end()
	must.Do(t, os.Remove(file))
	start(one, failed).end()
	orders.Store(1)
	s := start(two, waits)
	s.await("b.test")
	s.end()
	if n := orders.Load(); n != 1 {
		t.Errorf("%d orders for the domain that was refused, want one", n)
	}
	for i, text := range []string{"", "nonsense\n", "2999-01-01T00:00:00Z 1m0s -\n",
		"2026-01-01T00:00:00Z 1m0s -\n"} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		start(one, failed).end()
		if n := orders.Load(); n != int32(i+2) {
			t.Errorf("%q: %d orders, want %d", text, n, i+2)
		}
	}
	must.Do(t, os.WriteFile(file, []byte("2026-01-01T00:00:00Z 1m0s -\n"), 0o600))
	ca.Refuse(nil)
	s = startACME(t, ca, dir, one, "tls = { acme = true }")
	s.await("a.test")
	wait.Until(t, "the end of the pause", func() bool { _, err := os.Stat(file); return err != nil })
	s.end()
}

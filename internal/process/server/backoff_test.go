package server_test

import (
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/acme"
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
	for _, domains := range []string{`domains = ["a.test", "b.test"]`, `domains = ["a.test", "c.test"]`} {
		s.reload(s.text(domains, "tls = { acme = true }"))
		s.await(domains[len(domains)-8 : len(domains)-2]) // it comes behind a.test
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("%d orders for the domain that was refused, want one", n)
	}
}

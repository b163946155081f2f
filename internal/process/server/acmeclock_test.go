package server_test

import (
	"crypto/tls"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/tls/certs"
)

// TestACMEClock: a certificate that is not valid yet, or not any more, by this computer's clock is
// kept and served, and no other one is ordered in its place.
func TestACMEClock(t *testing.T) {
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 5 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	for name, valid := range map[string][2]time.Duration{
		"behind": {2 * time.Hour, 90 * 24 * time.Hour}, "ahead": {-2 * time.Hour, -time.Hour}} {
		t.Run(name, func(t *testing.T) {
			ca := acme.New(t)
			ca.Valid(valid[0], valid[1])
			var ofA, ofB atomic.Int32
			tried := make(chan bool)
			ca.Refuse(func(step, name string) *acme.Problem {
				switch {
				case step != "newOrder":
				case name == "a.test":
					ofA.Add(1)
				case ofB.Add(1) == 5: // a.test comes before it, each time
					close(tried)
					fallthrough
				default:
					return &acme.Problem{Status: 400, Type: "rejectedIdentifier", Detail: "not now"}
				}
				return nil
			})
			s := startACME(t, ca, t.TempDir(), `domains = ["a.test", "b.test"]`, "tls = { acme = true }")
			s.logged("this computer's clock says")
			<-s.Obtained()
			s.RenewCerts(time.Now())
			c := &tls.Config{ServerName: "a.test", InsecureSkipVerify: true}
			if got, err := s.connect(c); got != "a.test" || err != nil {
				t.Errorf("%q, %v, want the certificate that has come", got, err)
			}
			<-tried
			if n := ofA.Load(); n != 1 {
				t.Errorf("%d orders, want one", n)
			}
		})
	}
}

// TestACMELater: a certificate that is not valid yet waits for its time while the one before is
// good, also through a reload.
func TestACMELater(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	serial := func() string {
		t.Helper()
		conn := must.Get(tls.Dial("tcp", s.at, &tls.Config{ServerName: "a.test",
			InsecureSkipVerify: true}))(t)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	ca.Valid(2*time.Hour, 90*24*time.Hour)
	later := startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
	later.logged("this computer's clock says")
	must.Do(t, os.Rename(acmeFile(ca, later.dir, "a.test"), acmeFile(ca, dir, "a.test")))

	s.RenewCerts(time.Now())
	s.logged("the new one is not valid before")
	if serial() != before {
		t.Error("the new certificate is used before its time")
	}
	must.Do(t, s.Reload())
	if serial() != before {
		t.Error("after a reload, the new certificate is used before its time")
	}
	s.RenewCerts(time.Now().Add(3 * time.Hour))
	if serial() == before {
		t.Error("the new certificate is not used when its time has come")
	}
}

package tcpproxy_test

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/slots"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/handshake"
)

// TestChallenge: the handshake by which an authority verifies a name, for which nobody shows a
// certificate, is no way to the upstream.
func TestChallenge(t *testing.T) {
	t.Parallel()
	config := certs.New(t).Config("a.example")
	config.ClientAuth = tls.RequireAnyClientCert
	proof := config.Clone()
	proof.ClientAuth, proof.NextProtos = tls.NoClientCert, []string{handshake.ChallengeProtocol}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == handshake.ChallengeProtocol {
			return proof, nil
		}
		return nil, nil
	}
	up, came := silence(t)
	s := serveTLS(t, one+"'"+up+"'", config)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := tls.Client(s.dial(), &tls.Config{InsecureSkipVerify: true, MaxVersion: version,
			NextProtos: []string{handshake.ChallengeProtocol}})
		must.Do(t, c.Handshake())
		wantsEnd(t, c, "")
		c.Close()
	}
	for _, line := range s.log(2) {
		if result(line) != "name proved" {
			t.Error(line)
		}
	}
	if n := s.counts(); n.Failed != 0 || len(came) > 0 {
		t.Errorf("%d failed, %d connections to the upstream", n.Failed, len(came))
	}
}

// TestRefusedName: the line of a client that is refused for the name that it asks for has that
// name.
func TestRefusedName(t *testing.T) {
	t.Parallel()
	up, came := silence(t)
	s := serveTLS(t, one+"'"+up+"'",
		&tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{}, nil
		}})
	for i, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		c := tls.Client(s.dial(),
			&tls.Config{ServerName: "Other.example", InsecureSkipVerify: true, MaxVersion: version})
		if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			t.Error(err)
		}
		c.Close()
		if line := s.log(i + 1)[i]; !strings.Contains(line, ` "other.example" `) ||
			result(line) != "handshake failed" {
			t.Error(line)
		}
	}
	if len(came) > 0 {
		t.Error("a connection to the upstream")
	}
}

// TestHandshakesInTurn: a handshake that computes, or waits for its turn, does not hold up the
// loop, and one whose client leaves waits no more. The test has the process's slots, so it is
// alone.
func TestHandshakesInTurn(t *testing.T) {
	computes, goOn := make(chan struct{}), make(chan struct{})
	config := certs.New(t).Config("a.example")
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		computes <- struct{}{}
		<-goOn
		return nil, nil
	}
	s := serveTLS(t, one+"'"+upstream(t, echo("secure"))+"'", config)
	waiting := func(n int) {
		t.Helper()
		wait.Until(t, "handshakes wait", func() bool {
			_, waiting := handshake.Slots.Stats()
			return waiting == n
		})
	}
	begin := func() (c *net.TCPConn, done chan error) {
		c, done = s.dial(), make(chan error, 1)
		go func() { done <- tls.Client(c, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
		return c, done
	}
	free := slots.Take(handshake.Slots)
	_, done := begin()
	waiting(1)
	gone, failed := begin()
	waiting(2)
	must.Do(t, gone.SetLinger(0))
	gone.Close()
	<-failed
	waiting(1)
	if line := s.log(1)[0]; result(line) != "client left" {
		t.Error(line)
	}
	free()
	<-computes
	s.settle() // the loop turns
	close(goOn)
	must.Do(t, <-done)
}

// TestNameInAnyCase: a stream that ends TLS finds the route whatever the case of the name.
func TestNameInAnyCase(t *testing.T) {
	t.Parallel()
	s := serveTLS(t, one+"'"+upstream(t, echo("a"))+"'\nsni = ['A.example', '*.b.example']",
		certs.New(t).Config("a.example", "x.b.example"))
	for _, name := range []string{"a.example", "A.Example", "x.B.example"} {
		c := tls.Client(s.dial(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		wants(t, c, "a")
		c.Close()
	}
}

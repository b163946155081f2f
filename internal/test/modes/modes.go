// Package modes gives a test all the ways of running the same server.
package modes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	chacha "math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
)

// Mode is one way of running the same server.
type Mode struct {
	Name    string
	Handoff coro.Handoff
	Loops   int
	TLS     bool
	UNIX    bool // on a UNIX socket, which has one loop
	HTTP2   bool // the listener speaks it, too
}

// The modes there are. Run leaves out the last two. The handoff that is not the default has Plain,
// which Run leaves out beside Direct.
var (
	Plain    = Mode{Name: "channel", Handoff: coro.Channel, Loops: 1}
	Direct   = Mode{Name: "direct", Handoff: coro.Direct, Loops: 1}
	Several  = Mode{Name: "3 loops", Handoff: coro.Direct, Loops: 3}
	OverTLS  = Mode{Name: "tls", Handoff: coro.Direct, Loops: 1, TLS: true}
	HTTP2    = Mode{Name: "HTTP/2", Handoff: coro.Direct, Loops: 1, HTTP2: true}
	HTTP2TLS = Mode{Name: "HTTP/2 over TLS", Handoff: coro.Channel, Loops: 2, TLS: true, HTTP2: true}
	OverUNIX = Mode{Name: "unix", Handoff: coro.Direct, Loops: 1, UNIX: true}
)

// Network is "tcp" or "unix".
func (m Mode) Network() string {
	if m.UNIX {
		return "unix"
	}
	return "tcp"
}

// HTTP1 are the modes for a test of what HTTP/1.1 alone has: framing, pipelines, connections that
// end with an answer, Hijack.
var HTTP1 = []Mode{Direct, Several, OverTLS}

// Run gives each mode the same test; without modes, each of HTTP1 and HTTP/2. Plain and Direct
// differ in the handoff alone, which is a hundred lines of package coro: its tests and those of
// loop have both, and of a test that names both modes Run makes one.
func Run(t *testing.T, f func(t *testing.T, m Mode), modes ...Mode) {
	if len(modes) == 0 {
		modes = append(HTTP1[:len(HTTP1):len(HTTP1)], HTTP2)
	}
	direct := slices.Contains(modes, Direct)
	for _, m := range modes {
		if m != Plain || !direct {
			t.Run(m.Name, func(t *testing.T) { f(t, m) })
		}
	}
}

// Noise is data that is the same nowhere.
func Noise(n int) []byte {
	b := make([]byte, n)
	_, _ = chacha.NewChaCha8([32]byte{}).Read(b)
	return b
}

// ServerTLS is a configuration with a certificate made for this run.
var ServerTLS = sync.OnceValue(func() *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
})

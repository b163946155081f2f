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
}

// The modes there are. The handoff that is not the default has one of them.
var (
	Plain   = Mode{"channel", coro.Channel, 1, false}
	Direct  = Mode{"direct", coro.Direct, 1, false}
	Several = Mode{"3 loops", coro.Direct, 3, false}
	OverTLS = Mode{"tls", coro.Direct, 1, true}
)

// Run gives each mode the same test; without modes, each there is.
func Run(t *testing.T, f func(t *testing.T, m Mode), modes ...Mode) {
	if len(modes) == 0 {
		modes = []Mode{Plain, Direct, Several, OverTLS}
	}
	for _, m := range modes {
		t.Run(m.Name, func(t *testing.T) { f(t, m) })
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

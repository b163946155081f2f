package certs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"github.com/lwango/lwango/internal/tls/handshake"
)

// Challenges are those that this server can answer. The last one needs TXTRecords.
var Challenges = []string{acme.ChallengeTypeTLSALPN01, acme.ChallengeTypeHTTP01,
	acme.ChallengeTypeDNS01}

// proofs has what an authority looks for, by which it verifies names. Handshakes and handlers on
// any loop read it.
type proofs struct {
	certs sync.Map     // for tls-alpn-01: a *tls.Certificate for each name
	texts sync.Map     // for http-01: a text for each token
	open  atomic.Int32 // how many texts there are
}

// prove lets the authority find the proof of a challenge until withdraw is called.
func (p *proofs) prove(c acme.Challenge) (withdraw func(), err error) {
	name := strings.ToLower(c.Identifier.Value)
	switch c.Type {
	case acme.ChallengeTypeTLSALPN01:
		cert, err := proofCertificate(name, c.KeyAuthorization)
		if err != nil {
			return nil, err
		}
		p.certs.Store(name, cert)
		return func() { p.certs.CompareAndDelete(name, cert) }, nil
	case acme.ChallengeTypeHTTP01:
		if c.Token == "" {
			return nil, errors.New("the authority gives no token")
		}
		p.texts.Store(c.Token, c.KeyAuthorization)
		p.open.Add(1)
		return func() { p.texts.Delete(c.Token); p.open.Add(-1) }, nil
	}
	return nil, fmt.Errorf("there is no challenge %q", c.Type)
}

// Proving reports whether an authority may look for a proof by http just now, of this server or,
// if far, of another one. It is cheap.
func (o *Obtainer) Proving() (near, far bool) {
	return o.proofs.open.Load() > 0, o.shared.Load() != nil
}

// FarProof returns the proof of another server for a token; "": there is none. It waits for the
// storage, for seconds at most.
func (o *Obtainer) FarProof(ctx context.Context, token string) string {
	return o.shared.Load().proof(ctx, httpProof+token)
}

// Proof returns the proof for a token of the challenge http-01 (RFC 8555 section 8.3).
func (o *Obtainer) Proof(token string) (text string, ok bool) {
	found, ok := o.proofs.texts.Load(token)
	if !ok {
		return "", false
	}
	return found.(string), true
}

// answer returns the tls.Config for an authority that verifies a domain (RFC 8737), and nil for all
// other clients. It is the same at all listeners.
func (o *Obtainer) answer(hello *tls.ClientHelloInfo) *tls.Config {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != handshake.ChallengeProtocol {
		return nil
	}
	name := strings.ToLower(hello.ServerName)
	answer, ok := o.proofs.certs.Load(name)
	if proof := ""; !ok {
		if proof = o.shared.Load().proof(hello.Context(), tlsProof+name); proof != "" {
			var err error
			answer, err = proofCertificate(name, proof)
			ok = err == nil
		}
	}
	if !ok {
		return nil // crypto/tls finds no protocol then
	}
	return &tls.Config{Certificates: []tls.Certificate{*answer.(*tls.Certificate)},
		NextProtos: []string{handshake.ChallengeProtocol}, SessionTicketsDisabled: true}
}

// acmeIdentifier is the extension of a certificate with the proof (RFC 8737 section 6.1).
var acmeIdentifier = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 31}

// proofCertificate makes the certificate of the challenge tls-alpn-01 (RFC 8737 section 3).
func proofCertificate(name, proof string) (*tls.Certificate, error) {
	sum := sha256.Sum256([]byte(proof))
	value, err := asn1.Marshal(sum[:])
	if err != nil {
		return nil, err
	}
	key, _, err := newKey()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()),
		Subject:   pkix.Name{CommonName: "ACME challenge"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: []string{name},
		ExtraExtensions: []pkix.Extension{{Id: acmeIdentifier, Critical: true, Value: value}}}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// Package certs makes certificates for tests.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates. Its own is in the PEM file File until the test ends.
type Authority struct {
	File string
	Pool *x509.CertPool

	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New makes an authority.
func New(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{t: t, Pool: x509.NewCertPool()}
	a.key = a.newKey()
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.Pool.AddCert(a.cert)
	a.File = a.write("ca.pem", "CERTIFICATE", der)
	return a
}

// Below makes an authority whose certificate a has signed. It is in no file, and its Pool is nil.
func (a *Authority) Below(name string) *Authority {
	a.t.Helper()
	b := &Authority{t: a.t}
	b.key = b.newKey()
	b.cert = &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, b.cert, a.cert, &b.key.PublicKey, a.key)
	if err == nil {
		b.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return b
}

// Cert is the authority's own certificate.
func (a *Authority) Cert() *x509.Certificate { return a.cert }

// List makes a revocation list, in PEM, that is good until then. change may change what is in it.
func (a *Authority) List(until time.Time, change func(*x509.RevocationList),
	revoked ...*x509.Certificate) []byte {
	a.t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(time.Now().UnixNano()),
		ThisUpdate: time.Now().Add(-2 * time.Hour),
		NextUpdate: until}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.SerialNumber,
				RevocationTime: time.Now().Add(-time.Hour)})
	}
	if change != nil {
		change(l)
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// Leaf is the certificate of a pair.
func Leaf(c tls.Certificate) *x509.Certificate {
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		panic(err)
	}
	return leaf
}

func (a *Authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *Authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.t.TempDir(), name)
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, text, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// Issue makes a certificate that is valid for that long from now, for names of hosts and addresses,
// and for clients.
func (a *Authority) Issue(valid time.Duration, names ...string) tls.Certificate {
	a.t.Helper()
	return a.IssueTo(pkix.Name{CommonName: append(names, "no name")[0]}, valid, names...)
}

// IssueTo is Issue for a subject that is not the first of the names.
func (a *Authority) IssueTo(subject pkix.Name, valid time.Duration,
	names ...string) tls.Certificate {
	a.t.Helper()
	key := a.newKey()
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Config is that of a server with a certificate that is valid for an hour.
func (a *Authority) Config(names ...string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.Issue(time.Hour, names...)}}
}

// Sign makes a certificate of a request, for its names and its key, in PEM with the authority's own
// behind it. It is for any goroutine.
func (a *Authority) Sign(r *x509.CertificateRequest, from, to time.Time) ([]byte, error) {
	leaf := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: r.DNSNames,
		NotBefore: from, NotAfter: to}
	der, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, r.PublicKey, a.key)
	if err != nil {
		return nil, err
	}
	var chain []byte
	for _, der := range [][]byte{der, a.cert.Raw} {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return chain, nil
}

// Files writes a certificate and its key into PEM files, which are there until the test ends.
func (a *Authority) Files(c tls.Certificate) (cert, key string) {
	a.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.write("cert.pem", "CERTIFICATE", c.Certificate[0]), a.write("key.pem", "PRIVATE KEY", der)
}

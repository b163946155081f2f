package certs

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/tls/crl"
)

// Clients has the keys about certificates of clients, of a listener or of a site.
type Clients struct {
	Table settings.Table `toml:",table"`
	// CAs is a file of authorities, by which the certificates of clients are verified.
	CAs string `toml:"client_ca"`
	// Mode is what a client needs for a handshake: "require", a verified certificate, which is the
	// default; "optional", that or none; "any", any one or none, whose verification is only reported.
	Mode string `toml:"client_cert" oneof:"require optional any"`
	// CRL is a file of revocation lists, PEM or DER. They must have neither the certificate of a
	// client nor one of an authority between the client and that of client_ca.
	CRL string `toml:"client_crl"`

	reported bool // an error of the keys was reported: they are read for each listener
}

// Asks reports whether clients are asked for certificates.
func (k *Clients) Asks() bool { return k.Table.Has("client_ca") }

// Required reports whether clients need a certificate.
func (k *Clients) Required() bool { return k.Asks() && (k.Mode == "" || k.Mode == "require") }

// verifier verifies the certificates of clients by Clients. It does not change, but for the lists
// of crl and what it remembers. Any goroutine may call verify.
type verifier struct {
	auth    tls.ClientAuthType
	pool    *x509.CertPool
	crl     *crl.File // nil: none
	trusted []pair    // the authorities, without keys

	mu       sync.Mutex
	verified map[[sha256.Size]byte]verdict // by certificates of clients, where handshakes verify none
}

// verdict is what the authorities say of a client's certificates.
type verdict struct {
	chains [][]*x509.Certificate
	err    error
	until  time.Time
}

// verifier reads the files, and returns nil if there are no authorities. It reports errors at the
// table of the file, unless an earlier call has done so.
func (k *Clients) verifier(dir string) *verifier {
	before := k.reported
	wrong := func(key, format string, args ...any) {
		if k.reported = true; !before {
			k.Table.Errorf(key, format, args...)
		}
	}
	if !k.Asks() {
		for _, key := range []string{"client_cert", "client_crl"} {
			if k.Table.Has(key) {
				wrong(key, "needs client_ca beside it")
			}
		}
		return nil
	}
	v := &verifier{pool: x509.NewCertPool(), auth: tls.RequireAndVerifyClientCert}
	switch k.Mode {
	case "optional":
		v.auth = tls.VerifyClientCertIfGiven
	case "any":
		v.auth, v.verified = tls.RequestClientCert, map[[sha256.Size]byte]verdict{}
	}
	path := confpath.Join(dir, k.CAs)
	all, err := authorities(path)
	if err != nil {
		wrong("client_ca", "%v", err)
		return v
	}
	for _, ca := range all {
		v.pool.AddCert(ca)
		v.trusted = append(v.trusted, pair{cert: path, leaf: ca,
			position: k.Table.Position("client_ca")})
	}
	if k.Table.Has("client_crl") {
		if v.crl, err = crl.Open(confpath.Join(dir, k.CRL), all, time.Now()); err != nil {
			v.crl = nil
			wrong("client_crl", "%v", err)
		}
	}
	return v
}

// apply makes c ask for certificates. nil: it leaves c as it is.
func (v *verifier) apply(c *tls.Config) {
	if v == nil {
		return
	}
	c.ClientAuth, c.ClientCAs, c.VerifyConnection = v.auth, v.pool, nil
	if v.crl != nil && v.auth != tls.RequestClientCert {
		c.VerifyConnection = v.crl.VerifyConnection
	}
}

// stricter reports whether v refuses clients that old, which may be nil as v, does not.
func (v *verifier) stricter(old *verifier) bool {
	switch {
	case v == nil:
		return false
	case old == nil || v.auth > old.auth:
		return true
	case v.auth == tls.RequestClientCert: // refuses none
		return false
	}
	return !v.pool.Equal(old.pool) || v.crl != nil && (old.crl == nil ||
		v.crl.Path() != old.crl.Path() || v.crl.Stricter(old.crl))
}

// Results of a verification, as in nginx. What was not verified has a reason behind the colon.
const (
	None    = "NONE"
	Success = "SUCCESS"
	Failed  = "FAILED:"
)

// result returns what is known of the certificate of a connection.
func (v *verifier) result(state *tls.ConnectionState) string {
	switch {
	case len(state.PeerCertificates) == 0:
		return None
	case v.auth != tls.RequestClientCert && len(state.VerifiedChains) > 0:
		return Success
	}
	now := time.Now()
	if err := v.verify(state.PeerCertificates, now); err != nil {
		return Failed + reason(err)
	}
	return Success
}

// reason says why a certificate is not good, without its parts, of which its maker has chosen the
// text.
func reason(err error) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "unknown authority"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "expired or not yet valid"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return "not for clients"
	case errors.Is(err, errRevoked):
		return "revoked, or without a revocation list"
	}
	return "invalid"
}

var errRevoked = errors.New("revoked")

// Certificates that were verified are remembered for a minute at most, and so many of them.
const (
	rememberFor  = time.Minute
	rememberMost = 1024
)

// verify verifies the certificates of a client, as a handshake would.
func (v *verifier) verify(certs []*x509.Certificate, now time.Time) error {
	h := sha256.New()
	for _, c := range certs {
		h.Write(c.Raw)
	}
	key := [sha256.Size]byte(h.Sum(nil))
	v.mu.Lock()
	known, ok := v.verified[key]
	v.mu.Unlock()
	if !ok || now.After(known.until) {
		between := x509.NewCertPool()
		for _, c := range certs[1:] {
			between.AddCert(c)
		}
		known = verdict{until: now.Add(rememberFor)}
		known.chains, known.err = certs[0].Verify(x509.VerifyOptions{Roots: v.pool, CurrentTime: now,
			Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		if end := certs[0].NotAfter; known.err == nil && end.Before(known.until) {
			known.until = end
		}
		v.mu.Lock()
		if v.verified != nil {
			if len(v.verified) >= rememberMost {
				clear(v.verified)
			}
			v.verified[key] = known
		}
		v.mu.Unlock()
	}
	if known.err == nil && v.crl != nil && v.crl.Verify(known.chains, now) != nil {
		return errRevoked
	}
	return known.err
}

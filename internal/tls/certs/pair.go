package certs

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
)

// pair is a certificate that was read, with its key.
type pair struct {
	cert, key string // paths
	stamp     stamp  // of the files before they were read
	read      tls.Certificate
	leaf      *x509.Certificate // of that; nil until ACME obtains it
	domain    string            // for which it is obtained; "": it is not
	unread    error             // why the configuration has no leaf for domain
	position  string            // in the configuration
	strict    bool              // the listener has strict_sni
	again     time.Time         // a file of acme is to be read then; zero: when it changes
}

// stamp changes when one of a pair's files does.
type stamp [2]confpath.Stamp

func (p *pair) look() stamp { return stamp{confpath.StampOf(p.cert), confpath.StampOf(p.key)} }

// changed reports whether the files are to be read again: one of them is another, or it is time to.
func (p *pair) changed(now time.Time) bool {
	return p.look() != p.stamp || !p.again.IsZero() && now.After(p.again)
}

// load reads the files, and notes what it has read. If it fails, the pair that it has read before
// stays. Files that could not be read count as changed.
func (p *pair) load(now time.Time) error {
	p.stamp, p.again = p.look(), time.Time{}
	cert, err := confpath.KeyPair(p.cert, p.key)
	if err == nil && p.domain != "" && p.precedes(cert.Leaf, now) {
		p.again = cert.Leaf.NotBefore
		return fmt.Errorf("the new one is not valid before %s", p.again.Format(day))
	}
	if err == nil {
		p.read, p.leaf = cert, cert.Leaf
		return nil
	}
	if errors.As(err, new(*fs.PathError)) {
		p.stamp = stamp{} // what is in the files is not known, such as for want of a descriptor
	}
	return err
}

// precedes reports whether p's certificate, if there is one, is good while next is not yet, as it
// seems where the clock is behind.
func (p *pair) precedes(next *x509.Certificate, now time.Time) bool {
	return now.Before(next.NotBefore) && p.leaf != nil && !now.Before(p.leaf.NotBefore) &&
		!now.After(p.leaf.NotAfter)
}

// renewal is how long before its end a certificate is worth a warning: those who renew by ACME do
// it 30 days before.
const renewal = 14 * 24 * time.Hour

// day is how messages write a time.
const day = "2006-01-02 15:04 MST"

// timeConcern says what is wrong with the time for which p's certificate is good; "" if nothing is.
func (p *pair) timeConcern(now time.Time) string {
	if p.leaf == nil {
		return "" // the obtainer speaks of it
	}
	from, to := p.leaf.NotBefore, p.leaf.NotAfter
	before := renewal
	if p.domain != "" { // it may be for some days only, and is renewed a third of them before the end
		before = min(before, to.Sub(from)/6)
	}
	switch {
	case now.Before(from):
		return "is not valid before " + from.Format(day)
	case now.After(to):
		return "has expired on " + to.Format(day)
	case now.Add(before).After(to):
		return "expires on " + to.Format(day)
	}
	return ""
}

// chainConcern says that a certificate of p's file has not been signed by the one behind it, as it
// must be (RFC 5246 section 7.4.2); "" if all are. Browsers find the right one elsewhere, perhaps,
// but most other clients do not. It is no error: the key and the first certificate fit.
func (p *pair) chainConcern() string {
	signed := p.leaf
	for i := 1; i < len(p.read.Certificate); i++ {
		signer, err := x509.ParseCertificate(p.read.Certificate[i])
		if err == nil {
			err = signed.CheckSignatureFrom(signer)
		}
		if err != nil {
			return fmt.Sprintf("has a wrong chain: its certificate %d has not signed the one before it: "+
				"%v", i+1, err)
		}
		signed = signer
	}
	return ""
}

// nameConcern says that p's certificate has no DNS name, which is what clients compare with the
// name they ask for (RFC 9525 section 6.2: a common name does not count); "" if it has one, or if
// those that ask for an address can use it.
func (p *pair) nameConcern() string {
	switch {
	case p.leaf == nil || len(p.leaf.DNSNames) > 0:
		return ""
	case p.strict:
		return "has no DNS name, so strict_sni keeps it from all clients"
	case len(p.leaf.IPAddresses) == 0:
		return "has no DNS name (subjectAltName), so clients that verify it refuse it"
	}
	return ""
}

// Concern is something that is wrong with a certificate.
type Concern struct {
	Cert     string   // path of the file
	Names    []string // of the certificate
	Position string   // in the configuration
	What     string
}

// Warn logs it.
func (c Concern) Warn(log *slog.Logger) {
	log.Warn("certificate "+c.What, "cert", c.Cert, "names", c.Names)
}

func (p *pair) concern(what string) Concern {
	return Concern{p.cert, p.leaf.DNSNames, p.position, what}
}

// concerns says why clients refuse p's certificate, or will soon, and what it lacks.
func (p *pair) concerns(now time.Time) (all []Concern) {
	for _, what := range []string{p.timeConcern(now), p.chainConcern(), p.nameConcern()} {
		if what != "" {
			all = append(all, p.concern(what))
		}
	}
	return all
}

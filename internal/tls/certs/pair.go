package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/settings"
)

// pair is a certificate that was read, with its key.
type pair struct {
	cert, key string // paths
	password  string // of the key
	stamp     stamp  // of the files before they were read
	tlsCert   tls.Certificate
	leaf      *x509.Certificate // of that; nil until ACME obtains it
	domain    string            // that ACME obtains it for; "": it is no obtained one
	loadErr   error             // why the configuration has no leaf for domain
	position  string            // in the configuration
	strict    bool              // the listener has strict_sni
	site      int               // index of the site that brings it, or listenersOwn
	hosts     []string          // of the site
	table     settings.Table    // of the key; of no file for one that is obtained
	rereadAt  time.Time         // a file of acme is to be read then; zero: when it changes
}

// listenersOwn stands for a site where a pair is the listener's own.
const listenersOwn = -1

// Reader reads pairs of files while a configuration is read: each pair once, and none that has not
// changed since an earlier configuration. One goroutine uses it.
type Reader struct{ read map[[3]string]pair }

// NewReader returns a Reader for the configuration that is to replace before.
func NewReader(before Set) *Reader {
	r := &Reader{read: map[[3]string]pair{}}
	for _, t := range before {
		for _, p := range t.pairs {
			r.keep(&p)
		}
	}
	return r
}

func (r *Reader) keep(p *pair) {
	if p.leaf != nil && p.loadErr == nil && p.rereadAt.IsZero() {
		r.read[[3]string{p.cert, p.key, p.password}] = pair{stamp: p.stamp, tlsCert: p.tlsCert,
			leaf: p.leaf}
	}
}

// load is the method of p, but does not read what is known.
func (r *Reader) load(p *pair, now time.Time) error {
	if known, ok := r.read[[3]string{p.cert, p.key, p.password}]; ok && known.stamp != (stamp{}) &&
		known.stamp == p.stampFiles() {
		p.stamp, p.tlsCert, p.leaf = known.stamp, known.tlsCert, known.leaf
		return nil
	}
	err := p.load(now)
	if err == nil {
		r.keep(p)
	}
	return err
}

// stamp changes when one of a pair's files does.
type stamp [2]confpath.Stamp

func (p *pair) stampFiles() stamp {
	return stamp{confpath.StampOf(p.cert), confpath.StampOf(p.key)}
}

// changed reports whether the files are to be read again: one of them has changed, or rereadAt has
// passed.
func (p *pair) changed(now time.Time) bool {
	return p.stampFiles() != p.stamp || !p.rereadAt.IsZero() && now.After(p.rereadAt)
}

// load reads the files. If it fails, the certificate that it has read before stays. Files that
// could not be read count as changed.
func (p *pair) load(now time.Time) error {
	p.stamp, p.rereadAt = p.stampFiles(), time.Time{}
	cert, err := confpath.KeyPair(p.cert, p.key, p.password)
	if err == nil && p.domain != "" && p.precedes(cert.Leaf, now) {
		p.rereadAt = cert.Leaf.NotBefore
		return fmt.Errorf("the new one is not valid before %s", p.rereadAt.Format(day))
	}
	if err == nil {
		p.tlsCert, p.leaf = cert, cert.Leaf
		return nil
	}
	if errors.As(err, new(*fs.PathError)) {
		p.stamp = stamp{} // their content is not known: for example, no descriptor was left
	}
	return err
}

// precedes reports whether p has a certificate that is valid now while next is not valid yet. Both
// may be so where the clock is slow.
func (p *pair) precedes(next *x509.Certificate, now time.Time) bool {
	return now.Before(next.NotBefore) && p.leaf != nil && !now.Before(p.leaf.NotBefore) &&
		!now.After(p.leaf.NotAfter)
}

// renewal is how long before its end a certificate gets a warning. Clients of ACME renew one 30
// days before its end.
const renewal = 14 * 24 * time.Hour

// day is how messages write a time.
const day = "2006-01-02 15:04 MST"

// timeProblem says what is wrong with the time in which p's certificate is valid; "": nothing.
func (p *pair) timeProblem(now time.Time) string {
	if p.leaf == nil {
		return "" // the Obtainer logs that
	}
	from, to := p.leaf.NotBefore, p.leaf.NotAfter
	switch {
	case now.Before(from):
		return "is not valid before " + from.Format(day)
	case now.After(to):
		return "has expired on " + to.Format(day)
	case now.After(p.warnFrom()):
		return "expires on " + to.Format(day)
	}
	return ""
}

// warnFrom is when the warnings begin that p's certificate expires.
func (p *pair) warnFrom() time.Time {
	from, to := p.leaf.NotBefore, p.leaf.NotAfter
	before := renewal
	if p.domain != "" { // it may be valid for a few days only, and is renewed after two thirds of them
		before = min(before, to.Sub(from)/6)
	}
	return to.Add(-before)
}

// chainProblem says that a certificate of p's file is not signed by the next one, as it must be
// (RFC 5246 section 7.4.2); "": all are. Browsers may find the right one elsewhere, but most other
// clients do not. It is no error: the key and the first certificate fit.
func (p *pair) chainProblem() string {
	signed := p.leaf
	for i := 1; i < len(p.tlsCert.Certificate); i++ {
		signer, err := x509.ParseCertificate(p.tlsCert.Certificate[i])
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

// nameProblem says that p's certificate has no DNS name. Clients compare the DNS names with the
// name that they ask for (RFC 9525 section 6.2: a common name does not count). It returns "" if
// there is one, or if clients that ask for an address can use the certificate.
func (p *pair) nameProblem() string {
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

// hostProblem names the hosts of p's site for which the certificate is not; "": there are none, or
// p's certificate has no name at all. Another pair of the site may be for them.
func (p *pair) hostProblem() string {
	if p.leaf == nil || p.domain != "" || len(p.leaf.DNSNames) == 0 {
		return ""
	}
	for _, host := range p.hosts {
		if hasName(p.leaf, strings.Replace(host, "*", "x", 1)) {
			return ""
		}
	}
	if len(p.hosts) == 0 {
		return ""
	}
	return "is for no host of its site: " + strings.Join(p.hosts, ", ")
}

// mustStaple reports whether a certificate is for servers only that staple an OCSP response: its
// extension of RFC 7633 has the feature status_request, 5.
func mustStaple(c *x509.Certificate) bool {
	for _, x := range c.Extensions {
		var features []int
		if x.Id.Equal(tlsFeature) {
			_, err := asn1.Unmarshal(x.Value, &features)
			return err == nil && slices.Contains(features, 5)
		}
	}
	return false
}

var tlsFeature = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}

// Warning is a problem of a certificate.
type Warning struct {
	Cert     string   // path of the file
	Names    []string // of the certificate
	Position string   // in the configuration
	Problem  string
}

// Warn logs it.
func (c Warning) Warn(log *slog.Logger) {
	log.Warn("certificate "+c.Problem, "cert", c.Cert, "names", c.Names)
}

func (p *pair) warning(what string) Warning {
	return Warning{p.cert, p.leaf.DNSNames, p.position, what}
}

// warnings returns the problems for which clients refuse p's certificate now, or will soon.
func (p *pair) warnings(now time.Time) (all []Warning) {
	for _, what := range []string{p.timeProblem(now), p.chainProblem(), p.nameProblem(),
		p.hostProblem()} {
		if what != "" {
			all = append(all, p.warning(what))
		}
	}
	return all
}

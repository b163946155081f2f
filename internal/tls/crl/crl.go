// Package crl refuses certificates that were revoked, by lists of their authorities (RFC 5280
// section 5):
//
//	lists, err := crl.Open("lists.pem", authorities, time.Now())
//	config.VerifyConnection = lists.VerifyConnection
//
// As with ssl_crl of nginx, the whole chain is checked, but for the authority at its end, which is
// trusted without: for each certificate there must be a list of its issuer that has not expired. A
// chain ends at the first trusted authority. If another trusted authority has signed that one, no
// list is needed for it, but it must not be revoked.
package crl

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
)

// File is a file of lists. Handshakes on any goroutine use the lists that Open or Renew has read
// last. One goroutine at a time calls Renew.
type File struct {
	path        string
	authorities []*x509.Certificate
	// by DER, for authorities that others of them have signed: their issuers
	issuersOf map[string][]*x509.Certificate
	lists     atomic.Pointer[[]*list]

	stamp        confpath.Stamp // of the last file, before it was read; zero: it could not be read
	errorLogged  bool           // that was logged
	renewedAt    time.Time      // Renew was called last
	expiryLogged bool           // it was logged that a list is
}

// list is a list that was read.
type list struct {
	*x509.RevocationList
	revoked map[string]bool // by serial numbers
	signers sync.Map        // public keys to whether they have signed it
}

// Open reads a file, which has lists in PEM, or one in DER. known are authorities that issue
// certificates: a list of one of them must be signed by it. For other authorities, handshakes find
// the list and check its signature.
func Open(path string, known []*x509.Certificate, now time.Time) (*File, error) {
	f := &File{path: path, authorities: known, issuersOf: issuers(known),
		stamp: confpath.StampOf(path), renewedAt: now}
	lists, err := read(path, known)
	if err != nil {
		return nil, err
	}
	for i, l := range lists {
		if l.notYetValid(now) {
			return nil, fmt.Errorf("%s: list %d: that of %s is not valid before %s", path, i+1, l.Issuer,
				l.ThisUpdate.Format(time.DateTime))
		}
		if l.expired(now) {
			return nil, fmt.Errorf("%s: list %d: that of %s has expired on %s", path, i+1, l.Issuer,
				l.NextUpdate.Format(time.DateTime))
		}
	}
	f.lists.Store(&lists)
	return f, nil
}

// issuers finds, for each of the certificates, those of its issuers among all of them.
func issuers(all []*x509.Certificate) map[string][]*x509.Certificate {
	above := make(map[string][]*x509.Certificate)
	for _, c := range all {
		if selfIssued(c) {
			continue
		}
		for _, issuer := range all {
			if bytes.Equal(c.RawIssuer, issuer.RawSubject) && c.CheckSignatureFrom(issuer) == nil {
				above[string(c.Raw)] = append(above[string(c.Raw)], issuer)
			}
		}
	}
	return above
}

func selfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

// Renew reads the file if it has changed, or could not be read. It reports whether there are new
// lists, and whether these refuse certificates that were good. If the file cannot be used, the old
// lists stay, and that is logged. That a list has expired is logged once; the other lists of the
// file stay in use. Where a new list is not valid yet, the old ones of its issuer stay until it is.
func (f *File) Renew(now time.Time, log *slog.Logger) (renewed, stricter bool) {
	before := *f.lists.Load()
	if slices.ContainsFunc(before, func(l *list) bool {
		return l.notYetValid(f.renewedAt) && !l.notYetValid(now)
	}) {
		renewed, stricter = true, true
	}
	f.renewedAt = now
	if stamp := confpath.StampOf(f.path); stamp != f.stamp {
		f.stamp = stamp
		lists, err := read(f.path, f.authorities)
		_, unread := errors.AsType[*fs.PathError](err)
		if unread {
			f.stamp = confpath.Stamp{} // its content is not known: for example, no descriptor was left
		}
		switch {
		case err == nil:
			log.Info("revocation lists read again", "file", f.path, "lists", len(lists))
			lists = keepCurrent(lists, before, now)
			renewed, stricter, f.expiryLogged = true, stricter || isStricter(lists, before, now), false
			f.lists.Store(&lists)
		case !unread || !f.errorLogged:
			log.Error("revocation lists cannot be read again, the old ones stay", "error", err)
		}
		f.errorLogged = unread
	}
	lists := *f.lists.Load()
	for _, l := range lists {
		if l.expired(now) && !f.expiryLogged && !slices.ContainsFunc(lists, l.olderThan) {
			f.expiryLogged = true
			log.Error("a revocation list has expired, so no certificate of its issuer is taken", "file",
				f.path, "issuer", l.Issuer.String(), "expired", l.NextUpdate)
		}
	}
	return renewed, stricter
}

// keepCurrent returns lists, and of before those that stay in force until a list of the same issuer
// is valid.
func keepCurrent(lists, before []*list, now time.Time) []*list {
	all := slices.Clip(lists)
	for _, old := range before {
		if slices.ContainsFunc(lists, func(l *list) bool {
			return l.notYetValid(now) && l.sameIssuer(old)
		}) {
			all = append(all, old)
		}
	}
	return all
}

// Stricter reports whether the lists refuse what those of another File do not.
func (f *File) Stricter(than *File) bool {
	return isStricter(*f.lists.Load(), *than.lists.Load(), time.Now())
}

// isStricter reports whether lists revoke certificates that before do not, or lack an issuer that
// before have. Lists that are not valid yet do not count.
func isStricter(lists, before []*list, now time.Time) bool {
	latest := func(all []*list, like *list) (found *list) {
		for _, l := range all {
			if l.sameIssuer(like) && !l.notYetValid(now) && (found == nil || found.olderThan(l)) {
				found = l
			}
		}
		return found
	}
	for _, old := range before {
		if !old.notYetValid(now) && latest(lists, old) == nil {
			return true
		}
	}
	for _, l := range lists {
		if latest(lists, l) != l {
			continue
		}
		old := latest(before, l)
		for serial := range l.revoked {
			if old == nil || !old.revoked[serial] {
				return true
			}
		}
	}
	return false
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// VerifyConnection is for the field of that name of a tls.Config. It checks resumed sessions, too,
// since their certificate may have been revoked meanwhile. The error is a
// *tls.CertificateVerificationError.
func (f *File) VerifyConnection(s tls.ConnectionState) error {
	if err := f.Verify(s.VerifiedChains, time.Now()); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// Verify returns an error unless all certificates of one of the chains are good, or there is no
// chain.
func (f *File) Verify(chains [][]*x509.Certificate, now time.Time) (err error) {
	lists := *f.lists.Load()
	for _, chain := range chains {
		bad := f.verify(chain, lists, now)
		if bad == nil {
			return nil
		}
		err = cmp.Or(err, bad)
	}
	return err
}

func (f *File) verify(chain []*x509.Certificate, lists []*list, now time.Time) error {
	for i := 0; i+1 < len(chain); i++ {
		c, issuer := chain[i], chain[i+1]
		newest := inForce(lists, issuer, now)
		switch {
		case newest == nil:
			return fmt.Errorf("no revocation list of %s", issuer.Subject)
		case newest.expired(now):
			return fmt.Errorf("the revocation list of %s has expired on %s", issuer.Subject,
				newest.NextUpdate.Format(time.DateTime))
		case newest.has(c):
			return revoked(c)
		}
	}
	if len(chain) == 0 {
		return nil
	}
	return f.verifyAbove(chain[len(chain)-1:], lists, now)
}

// verifyAbove returns an error if the authority at the end of path was revoked, or all authorities
// above it. path leads there from the end of the chain.
func (f *File) verifyAbove(path []*x509.Certificate, lists []*list, now time.Time) (err error) {
	c := path[len(path)-1]
	for _, issuer := range f.issuersOf[string(c.Raw)] {
		var bad error
		if newest := inForce(lists, issuer, now); newest != nil && newest.has(c) {
			bad = revoked(c)
		} else if !slices.ContainsFunc(path, issuer.Equal) {
			bad = f.verifyAbove(append(slices.Clip(path), issuer), lists, now)
		}
		if bad == nil {
			return nil
		}
		err = cmp.Or(err, bad)
	}
	return err
}

func revoked(c *x509.Certificate) error {
	return fmt.Errorf("the certificate of %s, number %x, was revoked", c.Subject, c.SerialNumber)
}

// inForce returns the newest valid list of an authority, or nil.
func inForce(lists []*list, issuer *x509.Certificate, now time.Time) (newest *list) {
	for _, l := range lists {
		if l.issuedBy(issuer) && !l.notYetValid(now) &&
			(newest == nil || l.ThisUpdate.After(newest.ThisUpdate)) {
			newest = l
		}
	}
	return newest
}

// has reports whether the list has a certificate of its issuer.
func (l *list) has(c *x509.Certificate) bool { return l.revoked[string(c.SerialNumber.Bytes())] }

// notYetValid reports whether the list is not valid yet.
func (l *list) notYetValid(now time.Time) bool { return now.Before(l.ThisUpdate) }

// sameIssuer reports whether another list names the same authority.
func (l *list) sameIssuer(other *list) bool {
	return bytes.Equal(l.RawIssuer, other.RawIssuer) && (len(l.AuthorityKeyId) == 0 ||
		len(other.AuthorityKeyId) == 0 || bytes.Equal(l.AuthorityKeyId, other.AuthorityKeyId))
}

// olderThan reports whether another list of the same authority is newer.
func (l *list) olderThan(other *list) bool {
	return l.sameIssuer(other) && other.ThisUpdate.After(l.ThisUpdate)
}

// expired reports whether the list has expired.
func (l *list) expired(now time.Time) bool {
	return !l.NextUpdate.IsZero() && now.After(l.NextUpdate)
}

// namesIssuer reports whether the list names an authority as its issuer.
func (l *list) namesIssuer(issuer *x509.Certificate) bool {
	return bytes.Equal(l.RawIssuer, issuer.RawSubject) && (len(l.AuthorityKeyId) == 0 ||
		len(issuer.SubjectKeyId) == 0 || bytes.Equal(l.AuthorityKeyId, issuer.SubjectKeyId))
}

// issuedBy reports whether the list names an authority as its issuer, and is signed by it.
func (l *list) issuedBy(issuer *x509.Certificate) bool {
	if !l.namesIssuer(issuer) {
		return false
	}
	key := string(issuer.RawSubjectPublicKeyInfo)
	if signed, ok := l.signers.Load(key); ok {
		return signed.(bool)
	}
	signed := l.CheckSignatureFrom(issuer) == nil
	l.signers.Store(key, signed)
	return signed
}

// read reads the lists of a file.
func read(path string, known []*x509.Certificate) (all []*list, err error) {
	text, err := confpath.Read(path, confpath.MaxFile)
	if err != nil {
		return nil, err
	}
	add := func(der []byte) error {
		l, err := parse(der, known)
		if err != nil {
			return fmt.Errorf("%s: list %d: %w", path, len(all)+1, err)
		}
		all = append(all, l)
		return nil
	}
	if !bytes.Contains(text, []byte("-----BEGIN ")) {
		return all, add(text)
	}
	begun := bytes.Count(text, []byte("-----BEGIN X509 CRL"))
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			continue
		}
		if err := add(block.Bytes); err != nil {
			return nil, err
		}
	}
	switch {
	case begun == 0:
		return nil, fmt.Errorf("%s has no X509 CRL in PEM", path)
	case len(all) < begun: // package pem leaves out what it cannot read
		return nil, fmt.Errorf("%s: one of %d lists is no PEM (RFC 7468)", path, begun)
	}
	return all, nil
}

func parse(der []byte, known []*x509.Certificate) (*list, error) {
	r, err := x509.ParseRevocationList(der)
	switch {
	case err != nil && version1(der):
		return nil, errVersion1
	case err != nil:
		return nil, err
	}
	l := &list{RevocationList: r, revoked: make(map[string]bool, len(r.RevokedCertificateEntries))}
	named, signed := false, false
	for _, c := range known {
		if l.namesIssuer(c) {
			named, signed = true, signed || l.issuedBy(c)
		}
	}
	if named && !signed {
		return nil, fmt.Errorf("the signature is not that of %s", r.Issuer)
	}
	// A critical extension may say that the list is incomplete (RFC 5280 section 5.2).
	for _, x := range r.Extensions {
		if x.Critical && !x.Id.Equal(keyID) && !x.Id.Equal(number) {
			return nil, fmt.Errorf("that of %s has a critical extension %s, which is not known", r.Issuer,
				x.Id)
		}
	}
	for _, e := range r.RevokedCertificateEntries {
		for _, x := range e.Extensions {
			if x.Critical && !x.Id.Equal(reason) {
				return nil, fmt.Errorf("that of %s has a critical extension %s, which is not known", r.Issuer,
					x.Id)
			}
		}
		if e.SerialNumber == nil {
			return nil, errors.New("an entry has no serial number")
		}
		l.revoked[string(e.SerialNumber.Bytes())] = true
	}
	return l, nil
}

// errVersion1 is the error of a list without extensions, which has no number, and cannot say that
// it is incomplete (RFC 5280 section 5.1.2.1 asks for version 2).
var errVersion1 = errors.New(
	"it is a list of version 1, expected version 2: `openssl ca -gencrl` makes one where " +
		"the section of the authority in openssl.cnf has crl_extensions, as the one of the examples " +
		"has (crl_ext)")

// version1 reports whether a list is of version 1: it does not name its version, so it begins with
// the algorithm of the signature.
func version1(der []byte) bool {
	var outer, inner, first asn1.RawValue
	for _, part := range []*asn1.RawValue{&outer, &inner, &first} {
		if _, err := asn1.Unmarshal(der, part); err != nil {
			return false
		}
		der = part.Bytes
	}
	return inner.Tag == asn1.TagSequence && first.Tag == asn1.TagSequence
}

// Extensions that are read, or do not matter here.
var (
	keyID  = []int{2, 5, 29, 35}
	number = []int{2, 5, 29, 20}
	reason = []int{2, 5, 29, 21}
)

// Certificates returns the certificates of a text in PEM that can be read.
func Certificates(text []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c)
		}
	}
	return all
}

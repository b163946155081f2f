// Package crl refuses certificates that were revoked, by lists of their authorities (RFC 5280 section 5):
//
//	lists, err := crl.Open("lists.pem", authorities, time.Now())
//	config.VerifyConnection = lists.VerifyConnection
//
// As with ssl_crl of nginx, the whole chain is checked, but for the authority at its end, which is
// trusted without: for each certificate there must be a list of its issuer whose time is not over.
package crl

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/internal/confpath"
)

// File is a file of lists. Handshakes on any goroutine go by what Open or Renew has read last; one
// goroutine at a time calls Renew.
type File struct {
	path  string
	known []*x509.Certificate
	lists atomic.Pointer[[]*list]

	stamp confpath.Stamp // of what was tried last
	late  bool           // it was logged that a list is
}

// list is a list that was read.
type list struct {
	*x509.RevocationList
	revoked map[string]bool // by serial numbers
	signers sync.Map        // public keys to whether they have signed it
}

// Open reads a file, which has lists in PEM, or one in DER. known are authorities that certificates
// come from: a list of one of them must be signed by it. Others are found, and their signature is
// checked, in handshakes.
func Open(path string, known []*x509.Certificate, now time.Time) (*File, error) {
	f := &File{path: path, known: known, stamp: confpath.StampOf(path)}
	lists, err := read(path, known, now)
	if err != nil {
		return nil, err
	}
	f.lists.Store(&lists)
	return f, nil
}

// Renew reads the file if it has changed, and reports whether there are other lists. If it cannot be
// used, the old lists stay, and that is logged; so is, once, that the time of a list is over.
func (f *File) Renew(now time.Time, log *slog.Logger) (renewed bool) {
	if stamp := confpath.StampOf(f.path); stamp != f.stamp {
		f.stamp = stamp
		lists, err := read(f.path, f.known, now)
		if err != nil {
			log.Error("revocation lists cannot be read again, the old ones stay", "error", err)
		} else {
			f.lists.Store(&lists)
			renewed, f.late = true, false
			log.Info("revocation lists read again", "file", f.path, "lists", len(lists))
		}
	}
	for _, l := range *f.lists.Load() {
		if l.over(now) && !f.late {
			f.late = true
			log.Error("a revocation list has expired, so no certificate of its issuer is taken", "file", f.path,
				"issuer", l.Issuer.String(), "expired", l.NextUpdate)
		}
	}
	return renewed
}

// Path returns where the file is.
func (f *File) Path() string { return f.path }

// VerifyConnection is that of a tls.Config. It looks at connections that go on with an earlier session,
// too, whose certificate may have been revoked since.
// The error is a *tls.CertificateVerificationError.
func (f *File) VerifyConnection(s tls.ConnectionState) error {
	if err := f.Verify(s.VerifiedChains, time.Now()); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
	return nil
}

// Verify returns an error unless all certificates of one of the chains are good, or there is no chain.
func (f *File) Verify(chains [][]*x509.Certificate, now time.Time) (err error) {
	lists := *f.lists.Load()
	for _, chain := range chains {
		bad := verify(chain, lists, now)
		if bad == nil {
			return nil
		}
		err = cmp.Or(err, bad)
	}
	return err
}

func verify(chain []*x509.Certificate, lists []*list, now time.Time) error {
	for i := 0; i+1 < len(chain); i++ {
		c, issuer := chain[i], chain[i+1]
		var newest *list
		for _, l := range lists {
			if l.of(issuer) && (newest == nil || l.ThisUpdate.After(newest.ThisUpdate)) {
				newest = l
			}
		}
		switch {
		case newest == nil:
			return fmt.Errorf("no revocation list of %s", issuer.Subject)
		case newest.over(now):
			return fmt.Errorf("the revocation list of %s has expired on %s", issuer.Subject,
				newest.NextUpdate.Format(time.DateTime))
		case newest.revoked[string(c.SerialNumber.Bytes())]:
			return fmt.Errorf("the certificate of %s, number %x, was revoked", c.Subject, c.SerialNumber)
		}
	}
	return nil
}

// over reports whether the time of the list is.
func (l *list) over(now time.Time) bool { return !l.NextUpdate.IsZero() && now.After(l.NextUpdate) }

// names reports whether the list says that it is of an authority.
func (l *list) names(issuer *x509.Certificate) bool {
	return bytes.Equal(l.RawIssuer, issuer.RawSubject) && (len(l.AuthorityKeyId) == 0 ||
		len(issuer.SubjectKeyId) == 0 || bytes.Equal(l.AuthorityKeyId, issuer.SubjectKeyId))
}

// of reports whether the list is of an authority, which has signed it.
func (l *list) of(issuer *x509.Certificate) bool {
	if !l.names(issuer) {
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
func read(path string, known []*x509.Certificate, now time.Time) (all []*list, err error) {
	text, err := confpath.Read(path, confpath.MaxFile)
	if err != nil {
		return nil, err
	}
	add := func(der []byte) error {
		l, err := parse(der, known, now)
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

func parse(der []byte, known []*x509.Certificate, now time.Time) (*list, error) {
	r, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, err
	}
	l := &list{RevocationList: r, revoked: make(map[string]bool, len(r.RevokedCertificateEntries))}
	named, signed := false, false
	for _, c := range known {
		if l.names(c) {
			named, signed = true, signed || l.of(c)
		}
	}
	switch {
	case named && !signed:
		return nil, fmt.Errorf("the signature is not that of %s", r.Issuer)
	case now.Before(r.ThisUpdate):
		return nil, fmt.Errorf("that of %s is not valid before %s", r.Issuer, r.ThisUpdate.Format(time.DateTime))
	case l.over(now):
		return nil, fmt.Errorf("that of %s has expired on %s", r.Issuer, r.NextUpdate.Format(time.DateTime))
	}
	// What such an extension says could be that the list is not a whole one (RFC 5280 section 5.2).
	for _, x := range r.Extensions {
		if x.Critical && !x.Id.Equal(keyID) && !x.Id.Equal(number) {
			return nil, fmt.Errorf("that of %s has a critical extension %s, which is not known", r.Issuer, x.Id)
		}
	}
	for _, e := range r.RevokedCertificateEntries {
		for _, x := range e.Extensions {
			if x.Critical && !x.Id.Equal(reason) {
				return nil, fmt.Errorf("that of %s has a critical extension %s, which is not known", r.Issuer, x.Id)
			}
		}
		if e.SerialNumber == nil {
			return nil, errors.New("an entry has no serial number")
		}
		l.revoked[string(e.SerialNumber.Bytes())] = true
	}
	return l, nil
}

// Extensions that are read, or say nothing that matters here.
var (
	keyID  = []int{2, 5, 29, 35}
	number = []int{2, 5, 29, 20}
	reason = []int{2, 5, 29, 21}
)

// Certificates returns the certificates of a text in PEM, as far as they can be read.
func Certificates(text []byte) (all []*x509.Certificate) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			all = append(all, c)
		}
	}
	return all
}

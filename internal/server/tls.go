package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/metrics"
	"github.com/lwango/lwango/internal/settings"
)

// certConfig is one certificate with its key, both PEM files.
type certConfig struct {
	Table settings.Table `toml:",table"`
	// Cert is a PEM file, with the chain behind the certificate.
	Cert string `toml:"cert"`
	// Key is a PEM file.
	Key string `toml:"key"`
	// ACME stands for the certificates of [tls] acme, in the place of cert and key.
	ACME bool `toml:"acme"`

	_ struct{} `gone:"ocsp" why:"responses are not stapled any more, as authorities have ended OCSP"`
}

// pair is a certificate that was read, with its key.
type pair struct {
	cert, key string // paths
	stamp     stamp  // of the files before they were read
	read      tls.Certificate
	leaf      *x509.Certificate // of that; nil until ACME obtains it
	domain    string            // for which it is obtained; "": it is not
	unread    error             // why the configuration has no leaf for domain
	place     string            // in the configuration
	strict    bool              // the listener has strict_sni
	again     time.Time         // a file of acme is to be read then; zero: when it changes
}

// stamp changes when one of a pair's files does.
type stamp [2]struct {
	inode             uint64
	size              int64
	modified, changed syscall.Timespec
}

func (p *pair) look() (s stamp) {
	for i, path := range []string{p.cert, p.key} {
		var st syscall.Stat_t
		if syscall.Stat(path, &st) == nil { // of one that is missing, reading it tells why
			s[i].inode, s[i].size, s[i].modified, s[i].changed = st.Ino, st.Size, st.Mtim, st.Ctim
		}
	}
	return s
}

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

// checkTLS makes the listener's TLS configuration. A client gets a certificate whose names fit its
// SNI, and the first one where none does, or the client sends none.
func (c *config) checkTLS(l *listenerConfig) {
	if len(l.Certs) == 0 {
		if l.Table.Has("tls") {
			l.Table.Errorf("tls", "expected at least one { cert = ..., key = ... }")
		}
		for key, wanted := range map[string]bool{"min_version": l.Table.Has("min_version"),
			"client_ca": l.Table.Has("client_ca"), "strict_sni": l.Strict} {
			if wanted {
				l.Table.Errorf(key, "needs the key tls beside it")
			}
		}
		return
	}
	t := &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if l.HTTP2 {
		t.NextProtos = []string{"h2", "http/1.1"}
	}
	if l.MinTLS == "1.3" {
		t.MinVersion = tls.VersionTLS13
	}
	for _, cc := range l.Certs {
		switch {
		case cc.ACME && (cc.Cert != "" || cc.Key != ""):
			cc.Table.Errorf("acme", "stands in the place of cert and key")
			continue
		case cc.ACME && c.TLS.ACME == nil:
			cc.Table.Errorf("acme", "needs acme = { domains = [...] } in the table [tls]")
			continue
		case cc.ACME:
			l.Pairs = append(l.Pairs, c.TLS.ACME.pairs(time.Now(), cc.Table.Place(""))...)
			continue
		case cc.Cert == "" || cc.Key == "":
			cc.Table.Errorf("", "expected both cert and key, paths of PEM files, or acme = true")
			continue
		}
		p := pair{cert: confpath.Join(c.Dir, cc.Cert), key: confpath.Join(c.Dir, cc.Key),
			place: cc.Table.Place(""), strict: l.Strict}
		if err := p.load(time.Now()); err != nil {
			cc.Table.Errorf("", "%v", err)
			continue
		}
		l.Pairs = append(l.Pairs, p)
	}
	if l.Table.Has("client_ca") {
		path := confpath.Join(c.Dir, l.CAs)
		all, err := authorities(path)
		if err != nil {
			l.Table.Errorf("client_ca", "%v", err)
		}
		t.ClientCAs = x509.NewCertPool()
		for _, ca := range all {
			t.ClientCAs.AddCert(ca)
			l.Trusted = append(l.Trusted, pair{cert: path, leaf: ca,
				place: l.Table.Place("client_ca")})
		}
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	l.TLS = t
	l.certify()
}

// certify puts the certificates that were read into l.TLS.
func (l *listenerConfig) certify() {
	l.TLS = l.TLS.Clone() // handshakes use the old one
	l.TLS.Certificates, l.TLS.GetConfigForClient = nil, nil
	var missing []string
	for i := range l.Pairs {
		if p := &l.Pairs[i]; p.leaf != nil {
			l.TLS.Certificates = append(l.TLS.Certificates, p.read)
		} else {
			missing = append(missing, p.domain)
		}
	}
	l.TLS.GetCertificate = choose(l.TLS.Certificates)
	if l.Strict || missing != nil {
		l.TLS.GetConfigForClient = refuse(l.TLS.Certificates, l.Strict, missing, l.log)
	}
}

// choose returns a GetCertificate that gives clients a certificate for their SNI, if there is one.
// Without it, crypto/tls gives a client that can use none of these the first certificate of all,
// which may be another name's.
func choose(certs []tls.Certificate) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	byName := index(certs)
	return func(hello *tls.ClientHelloInfo) (own *tls.Certificate, err error) {
		for cert := range byName.of(hello.ServerName) {
			if hello.SupportsCertificate(cert) == nil {
				return cert, nil
			}
			own = cert // the handshake fails, unless there is another one
		}
		return own, nil // nil: crypto/tls takes what else there is
	}
}

// refuse returns a GetConfigForClient that turns clients away whose SNI none of the certificates is
// for: if strict, all of them, and those that send none, and otherwise those that ask for one of the
// missing domains. It is asked before a session is resumed; then crypto/tls asks for no certificate.
func refuse(certs []tls.Certificate, strict bool, missing []string,
	log *slog.Logger) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	// Without a certificate crypto/tls sends the alert unrecognized_name (RFC 6066 section 3).
	none := &tls.Config{SessionTicketsDisabled: true}
	byName := index(certs)
	return func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		for range byName.of(hello.ServerName) {
			return nil, nil
		}
		if name := strings.ToLower(hello.ServerName); slices.Contains(missing, name) {
			log.Warn("conn: client turned away, its certificate is still to be obtained", "domain",
				name)
			return none, nil
		}
		if strict {
			return none, nil
		}
		return nil, nil
	}
}

// renewal is how long before its end a certificate is worth a warning: those who renew by ACME do
// it 30 days before.
const renewal = 14 * 24 * time.Hour

// day is how messages write a time.
const day = "2006-01-02 15:04 MST"

// concern says what is wrong with the time for which p's certificate is good; "" if nothing is.
func (p *pair) concern(now time.Time) string {
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

// nameConcern says that p's certificate has no DNS name, which is what clients compare with the name
// they ask for (RFC 9525 section 6.2: a common name does not count); "" if it has one, or if those
// that ask for an address can use it.
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

// concerns says why clients refuse p's certificate, or will soon, and what it lacks.
func (p *pair) concerns(now time.Time) []string {
	return slices.DeleteFunc([]string{p.concern(now), p.chainConcern(), p.nameConcern()},
		func(what string) bool { return what == "" })
}

// concerns calls say for each concern of a certificate, and of the authorities of clients.
func (c *config) concerns(now time.Time, say func(p *pair, what string)) {
	for i := range c.Listeners {
		for j := range c.Listeners[i].Pairs {
			p := &c.Listeners[i].Pairs[j]
			for _, what := range p.concerns(now) {
				say(p, what)
			}
		}
		for j := range c.Listeners[i].Trusted {
			p := &c.Listeners[i].Trusted[j]
			if what := p.concern(now); what != "" {
				say(p, fmt.Sprintf("of the authority %s %s", p.leaf.Subject, what))
			}
		}
	}
}

// certificates returns what there is to say of them, each file once.
func (c *config) certificates() *[]metrics.Certificate {
	all, seen := []metrics.Certificate{}, map[string]bool{}
	for _, l := range c.Listeners {
		for _, p := range l.Pairs {
			if seen[p.cert] {
				continue
			}
			seen[p.cert] = true
			if p.leaf == nil {
				all = append(all, metrics.Certificate{File: p.cert, Names: []string{p.domain}})
				continue
			}
			names := slices.Concat([]string{}, p.leaf.DNSNames) // not nil, for JSON
			for _, ip := range p.leaf.IPAddresses {
				names = append(names, ip.String())
			}
			all = append(all, metrics.Certificate{File: p.cert, Names: names, Until: p.leaf.NotAfter})
		}
	}
	return &all
}

// certsEvery is how often a server looks at the files of its certificates, and warnEvery how often
// it says which of them expire.
const (
	certsEvery = time.Minute
	warnEvery  = 24 * time.Hour
)

// warnOfCerts logs the concerns of all certificates.
func (s *server) warnOfCerts(now time.Time) {
	s.warned = now
	s.config.concerns(now, s.warnOfCert)
}

func (s *server) warnOfCert(p *pair, what string) {
	s.own.Warn("certificate "+what, "cert", p.cert, "names", p.leaf.DNSNames)
}

// renewCerts puts certificates whose files have changed into force, for the next handshakes. A pair
// that cannot be used leaves the listener as it is until its files change again, since one of them
// may be still to come, or until they can be read.
func (s *server) renewCerts(now time.Time) {
	for i := range s.config.Listeners {
		if lc := &s.config.Listeners[i]; lc.renew(now, func(p *pair, err error) {
			if err != nil {
				s.own.Error("certificate cannot be renewed, the old one stays", "cert", p.cert,
					"error", err)
			}
			for _, what := range p.concerns(now) {
				s.warnOfCert(p, what)
			}
			switch {
			case err != nil:
			case p.domain != "":
				s.own.Info("certificate obtained", "domain", p.domain, "expires", p.leaf.NotAfter)
			default:
				s.own.Info("certificate renewed", "cert", p.cert, "names", p.leaf.DNSNames,
					"expires", p.leaf.NotAfter)
			}
		}) {
			if l := s.listeners[lc.Address]; l != nil { // otherwise a new process has it
				l.certs.Store(lc.TLS)
			}
			s.observed.certificates.Store(s.config.certificates())
		}
	}
	if now.Sub(s.warned) >= warnEvery {
		s.warnOfCerts(now)
	}
}

// renew reads the pairs whose files have changed, and reports whether there is a new TLS. It calls
// say for each of them, but not again for files that still cannot be read.
func (l *listenerConfig) renew(now time.Time, say func(p *pair, err error)) (renewed bool) {
	for i := range l.Pairs {
		p := &l.Pairs[i]
		if !p.changed(now) {
			continue
		}
		stamp, leaf := p.stamp, p.leaf
		err := p.load(now)
		if p.stamp == stamp && p.leaf.Equal(leaf) {
			continue
		}
		say(p, err)
		renewed = true
	}
	if renewed {
		l.certify()
	}
	return renewed
}

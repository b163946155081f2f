package server

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/server/settings"
)

// certConfig is one certificate with its key, both PEM files.
type certConfig struct {
	Table settings.Table `toml:",table"`
	// Cert is a PEM file, with the chain behind the certificate.
	Cert string `toml:"cert"`
	// Key is a PEM file.
	Key string `toml:"key"`
}

// pair is a certificate that was read, with its key.
type pair struct {
	cert, key string // paths
	stamp     stamp  // of the files before they were read
	leaf      *x509.Certificate
	place     string // in the configuration
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

// read reads the files, and notes what it has read.
func (p *pair) read() (tls.Certificate, error) {
	p.stamp = p.look()
	cert, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err == nil {
		p.leaf = cert.Leaf
	}
	return cert, err
}

// checkTLS makes the listener's TLS configuration. crypto/tls picks the certificate whose names fit
// the client's SNI, and the first one where none does, or the client sends none.
func (c *config) checkTLS(l *listenerConfig) {
	if len(l.Certs) == 0 {
		if l.Table.Has("tls") {
			l.Table.Errorf("tls", "expected at least one { cert = ..., key = ... }")
		}
		for _, key := range []string{"min_version", "client_ca"} {
			if l.Table.Has(key) {
				l.Table.Errorf(key, "needs the key tls beside it")
			}
		}
		return
	}
	t := &tls.Config{NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	if l.MinTLS == "1.3" {
		t.MinVersion = tls.VersionTLS13
	}
	for _, cc := range l.Certs {
		if cc.Cert == "" || cc.Key == "" {
			cc.Table.Errorf("", "expected both cert and key, paths of PEM files")
			continue
		}
		p := pair{cert: confpath.Join(c.Dir, cc.Cert), key: confpath.Join(c.Dir, cc.Key),
			place: cc.Table.Place("")}
		cert, err := p.read()
		if err != nil {
			cc.Table.Errorf("", "%v", err)
			continue
		}
		t.Certificates = append(t.Certificates, cert)
		l.Pairs = append(l.Pairs, p)
	}
	if l.Table.Has("client_ca") {
		var err error
		if t.ClientCAs, err = authorities(confpath.Join(c.Dir, l.CAs)); err != nil {
			l.Table.Errorf("client_ca", "%v", err)
		}
		t.ClientAuth = tls.RequireAndVerifyClientCert
	}
	l.TLS = t
}

// authorities reads certificates of authorities from a PEM file.
func authorities(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", path)
	}
	return pool, nil
}

// renewal is how long before its end a certificate is worth a warning: those who renew by ACME do
// it 30 days before.
const renewal = 14 * 24 * time.Hour

// concern says what is wrong with the time for which p's certificate is good; "" if nothing is.
func (p *pair) concern(now time.Time) string {
	const day = "2006-01-02 15:04 MST"
	switch from, to := p.leaf.NotBefore, p.leaf.NotAfter; {
	case now.Before(from):
		return "is not valid before " + from.Format(day)
	case now.After(to):
		return "has expired on " + to.Format(day)
	case now.Add(renewal).After(to):
		return "expires on " + to.Format(day)
	}
	return ""
}

// concerns calls say for each certificate that clients refuse, or will soon.
func (c *config) concerns(now time.Time, say func(p *pair, what string)) {
	for i := range c.Listeners {
		for j := range c.Listeners[i].Pairs {
			p := &c.Listeners[i].Pairs[j]
			if what := p.concern(now); what != "" {
				say(p, what)
			}
		}
	}
}

// certsEvery is how often a server looks at the files of its certificates, and warnEvery how often
// it says which of them expire.
const (
	certsEvery = time.Minute
	warnEvery  = 24 * time.Hour
)

// warnOfCerts logs which certificates clients refuse, or will soon.
func (s *server) warnOfCerts(now time.Time) {
	s.warned = now
	s.config.concerns(now, func(p *pair, what string) {
		s.own.Warn("certificate "+what, "cert", p.cert, "names", p.leaf.DNSNames)
	})
}

// renewCerts puts certificates whose files have changed into force, for the next handshakes. A pair
// that cannot be used leaves the listener as it is until its files change again: perhaps one of
// them is still to come.
func (s *server) renewCerts(now time.Time) {
	for i := range s.config.Listeners {
		if lc := &s.config.Listeners[i]; lc.renew(func(p *pair, err error) {
			if err != nil {
				s.own.Error("certificate cannot be renewed, the old one stays", "cert", p.cert,
					"error", err)
			} else {
				s.own.Info("certificate renewed", "cert", p.cert, "names", p.leaf.DNSNames,
					"expires", p.leaf.NotAfter)
			}
		}) {
			s.listeners[lc.Address].certs.Store(lc.TLS)
		}
	}
	if now.Sub(s.warned) >= warnEvery {
		s.warnOfCerts(now)
	}
}

// renew reads the pairs whose files have changed, and reports whether there is a new TLS. It calls
// say for each of them.
func (l *listenerConfig) renew(say func(p *pair, err error)) (renewed bool) {
	for i := range l.Pairs {
		p := &l.Pairs[i]
		if p.look() == p.stamp {
			continue
		}
		cert, err := p.read()
		say(p, err)
		if err != nil {
			continue
		}
		l.TLS, renewed = l.TLS.Clone(), true // handshakes use the old one
		l.TLS.Certificates = slices.Clone(l.TLS.Certificates)
		l.TLS.Certificates[i] = cert
	}
	return renewed
}

package server

import (
	"crypto/tls"
	"errors"
	"io/fs"
	"net/mail"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/acme"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/confpath"
	"github.com/lwango/lwango/internal/settings"
	"github.com/lwango/lwango/internal/sysio"
)

// tlsConfig is [tls].
type tlsConfig struct {
	Table settings.Table `toml:",table"`
	// ACME gets certificates from an authority and renews them, for listeners with tls = { acme =
	// true }.
	ACME *acmeConfig `toml:"acme"`
}

// acmeConfig is acme of [tls].
type acmeConfig struct {
	Table settings.Table `toml:",table"`
	// Email is where the authority may write to.
	Email string `toml:"email"`
	// Domains are the names; each gets a certificate of its own.
	Domains []string `toml:"domains"`
	// Directory is the authority's URL; by default that of Let's Encrypt.
	Directory string `toml:"directory"`
	// Cache is the folder of certificates and keys; by default acme in $STATE_DIRECTORY, or else
	// beside this file.
	Cache string `toml:"cache"`

	folder string // below that of Cache, for the directory
}

// same reports whether both ask for the same.
func (a *acmeConfig) same(b *acmeConfig) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Email == b.Email && a.Directory == b.Directory && a.folder == b.folder &&
		slices.Equal(a.Domains, b.Domains)
}

// checkACME checks acme of [tls]. Listeners are checked later. j may be nil.
func (c *config) checkACME(j *jail) {
	a := c.TLS.ACME
	if a == nil {
		return
	}
	if a.Table.Has("email") {
		if at, err := mail.ParseAddress(a.Email); err != nil || at.Address != a.Email {
			a.Table.Errorf("email", "expected an address such as admin@example.org, found %q",
				a.Email)
		}
	}
	if len(a.Domains) == 0 {
		a.Table.Errorf("domains", "expected the names that certificates are for")
	}
	for i, name := range a.Domains {
		name = ascii.ToLower(name)
		if err := checkDomain(name); err != nil {
			a.Table.Errorf("domains", "%q: %v", a.Domains[i], err)
		} else if slices.Contains(a.Domains[:i], name) {
			a.Table.Errorf("domains", "%q is named twice", a.Domains[i])
		}
		a.Domains[i] = name
	}
	if !a.Table.Has("directory") {
		a.Directory = acme.LetsEncryptURL
		a.Table.Assume("directory", a.Directory)
	}
	at, err := url.Parse(a.Directory)
	if err != nil || at.Scheme != "https" || at.Hostname() == "" || at.User != nil {
		a.Table.Errorf("directory", "expected a URL with https:// (RFC 8555 section 6.1), such as %s",
			acme.LetsEncryptURL)
		return
	}
	cache := a.Cache
	if !a.Table.Has("cache") {
		state, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
		cache = filepath.Join(state, "acme")
		a.Table.Assume("cache", confpath.Join(c.Dir, cache))
	}
	// Certificates of a directory for tests must not be taken for those of another one.
	a.folder = filepath.Join(confpath.Join(c.Dir, cache), strings.Map(func(r rune) rune {
		if r == '.' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' ||
			r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, at.Host+strings.TrimSuffix(at.Path, "/")))
	if err := a.checkFolder(j); err != nil {
		a.Table.Errorf("cache", "%v", err)
	}
}

// checkObtained checks that a listener answers the authority.
func (c *config) checkObtained() {
	if a := c.TLS.ACME; a != nil && len(a.Domains) > 0 && c.acme() == nil {
		a.Table.Errorf("", "no [[listener]] has tls = { acme = true }, and it takes one to obtain "+
			"certificates")
	}
}

// checkDomain says why the challenge tls-alpn-01 is of no use for name, in lower case.
func checkDomain(name string) error {
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return errors.New("expected a name, and no address")
	}
	if strings.HasPrefix(name, "*.") {
		return errors.New("a wildcard needs another challenge, dns-01; expected the names one by one")
	}
	wrong := errors.New("expected a name such as example.org; what is not ASCII is written xn--")
	if len(name) > 253 {
		return wrong
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(r rune) bool {
				return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
			}) {
			return wrong
		}
	}
	return nil
}

// checkFolder returns an error if no files can be made in the folder, or it cannot be made. The
// folder of cache may be missing, but the one around it may not.
func (a *acmeConfig) checkFolder(j *jail) error {
	if a.toBeMade(j) {
		return nil
	}
	dir := a.folder
	for range 2 {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return sysio.CheckTempDir(dir)
}

// toBeMade reports whether the folder is missing for -t, which is confined already and makes none.
// A start makes it before that, and gives it to the user.
func (a *acmeConfig) toBeMade(j *jail) bool {
	if j == nil || !j.check || !j.done {
		return false
	}
	_, err := os.Stat(a.folder)
	return errors.Is(err, fs.ErrNotExist)
}

// makeFolder makes the folder, if it is missing, for the user that the process is to become.
func (a *acmeConfig) makeFolder(j *jail) error {
	for _, dir := range []string{filepath.Dir(a.folder), a.folder} {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && j != nil && j.user != nil && !j.done {
			err = os.Lchown(dir, j.user.ID, j.user.Group)
		}
		if err != nil {
			return a.Table.Wrong("cache", err)
		}
	}
	return nil
}

// checkObtaining warns of what keeps a process that was confined from obtaining certificates.
func (s *server) checkObtaining() {
	a := s.config.acme()
	if a == nil {
		return
	}
	if err := a.checkFolder(s.source.jail); err != nil {
		s.own.Warn("confine: no certificate can be obtained or renewed", "error", err)
	}
}

// file is where the certificate of a domain is, with its key.
func (a *acmeConfig) file(domain string) string { return filepath.Join(a.folder, domain+".pem") }

// pairs are those of a listener: what has been obtained so far, and what has not.
func (a *acmeConfig) pairs(now time.Time, place string) (all []pair) {
	for _, name := range a.Domains {
		p := pair{cert: a.file(name), key: a.file(name), domain: name, place: place}
		p.unread = p.load(now) // the obtainer looks into it, and see keepObtained
		all = append(all, p)
	}
	return all
}

// keepObtained puts what is in force into the listeners of next whose files cannot be read just
// now: a file may have gone, belong to root, or take a descriptor that is not left. The obtainer
// replaces it at its next look. It also does so where the file is for later.
func (s *server) keepObtained(next *config) {
	inForce := map[string]pair{}
	for _, l := range s.config.Listeners {
		for _, p := range l.Pairs {
			if p.domain != "" && p.leaf != nil {
				inForce[p.cert] = p
			}
		}
	}
	for i := range next.Listeners {
		l := &next.Listeners[i]
		for j, p := range l.Pairs {
			old, ok := inForce[p.cert]
			early := ok && p.leaf != nil && old.precedes(p.leaf, time.Now())
			if p.leaf != nil && !early || !ok {
				continue
			}
			if early {
				old.again, old.place = p.leaf.NotBefore, p.place
				l.Pairs[j] = old
				l.certify()
				continue
			}
			s.own.Warn("certificate cannot be read, the one in force stays", "cert", p.cert, "error",
				p.unread)
			old.place = p.place
			l.Pairs[j] = old
			l.certify()
		}
	}
}

// acme returns what certificates are to be obtained for; nil: no listener needs any.
func (c *config) acme() *acmeConfig {
	for i := range c.Listeners {
		if slices.ContainsFunc(c.Listeners[i].Pairs, func(p pair) bool { return p.domain != "" }) {
			return c.TLS.ACME
		}
	}
	return nil
}

// challenges has a *tls.Certificate for each domain that an authority verifies at this moment.
type challenges struct{ answers sync.Map }

// config returns what an authority gets that verifies a domain (RFC 8737), and nil for all other
// clients. It is the same at all listeners.
func (c *challenges) config(hello *tls.ClientHelloInfo) *tls.Config {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != acme.ALPNProto {
		return nil
	}
	answer, ok := c.answers.Load(strings.ToLower(hello.ServerName))
	if !ok {
		return nil // crypto/tls finds no protocol then
	}
	return &tls.Config{Certificates: []tls.Certificate{*answer.(*tls.Certificate)},
		NextProtos: []string{acme.ALPNProto}, SessionTicketsDisabled: true}
}

// Package certs has the certificates of TLS listeners: it reads and renews them, obtains them from
// an authority, and chooses one in a handshake.
//
// A TLS has the keys of a [[listener]] about TLS. Check completes it while a configuration is read,
// and sets Config, which handshakes use. From then on a TLS belongs to the server's goroutine,
// which calls Renew now and then to see whether there is another Config. A Set has the TLS of all
// listeners. An ACME has the keys of acme in [tls]. An Obtainer is the server's client of that
// authority: its goroutine writes files, which Renew reads. Handshakes, on any loop, use the
// tls.Config that Obtainer.ListenerConfig returns, which asks the Offer in force.
//
//	certs.go        TLS and Set: the keys, and the certificates in force
//	sites.go        Site: the keys of a [[site]], and what they add to listeners
//	pair.go         a certificate with its key: reading, and what is wrong with it
//	clients.go      client_ca and what stands beside it: certificates of clients
//	authorities.go  client_ca: the file of authorities
//	handshake.go    which certificate a client gets
//	acme.go         ACME: the keys, and the folder of what is obtained
//	obtain.go       Obtainer: when a certificate is obtained
//	pause.go        for how long a failed attempt is not repeated, over restarts
//	renewal.go      when the authority wants a certificate to be renewed
//	lock.go         the lock that lets one process at a time obtain certificates
//	storage.go      Storage: what several servers share
//	account.go      an authority and the account there
//	order.go        an order of ACME
//	challenge.go    proofs of names by tls-alpn-01 and http-01
//	dns.go          proofs of names by dns-01
package certs

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/settings"
)

// TLS is the keys of a listener about TLS.
type TLS struct {
	Table settings.Table `toml:",table"`
	// Files is one certificate with its key, or a list of them. The SNI chooses one; the first one is
	// for other names. Or it is true: then all certificates are those of sites.
	Files []Files `toml:"tls"`
	// MinVersion is the least version of TLS; empty: 1.2.
	MinVersion string `toml:"min_version" oneof:"1.2 1.3"`
	Clients    `toml:",inline"`
	// Strict refuses handshakes for names that no certificate has, and without a name.
	Strict bool `toml:"strict_sni"`

	// Config is made of the keys, or by the program; nil: the listener has no TLS. It does not change:
	// another Config replaces it.
	Config *tls.Config

	pairs   []pair       // of Files, and then those of sites
	sites   Sites        // at the listener
	offer   *Offer       // has Config; nil: see Offer
	clients *verifier    // of Clients; nil: clients are not asked, or by the Config of a program
	log     *slog.Logger // of what clients cause

	// By index of the site, of those that ask for certificates themselves.
	ofSites map[int]*verifier
}

// Files are one certificate with its key, both PEM files.
type Files struct {
	Table settings.Table `toml:",table"`
	On    *bool          `toml:",switch"`
	// Cert is a PEM file, with the chain behind the certificate.
	Cert string `toml:"cert"`
	// Key is a PEM file.
	Key string `toml:"key"`
	// KeyPassword decrypts a key that is encrypted.
	KeyPassword string `toml:"key_password"`
	// ACME stands for the certificates of [tls] acme, in the place of cert and key; at a site, for
	// those of its hosts.
	ACME bool `toml:"acme"`
	// Joint has one certificate obtained for all hosts of the site, instead of one for each.
	Joint bool `toml:"joint"`

	_ struct{} `gone:"ocsp" why:"responses are not stapled any more, as authorities have ended OCSP"`
}

// Context is what Check needs besides the keys.
type Context struct {
	Dir       string   // where relative paths begin
	ACME      *ACME    // obtains certificates; nil: nothing does
	Protocols []string // for ALPN
	Reader    *Reader  // reads the pairs
	Sites     Sites    // none: the zero Sites
	Log       *slog.Logger
}

// On reports whether the listener is to speak TLS, according to its keys.
func (t *TLS) On() bool {
	return len(t.Files) > 0 && (t.Files[0].On == nil || *t.Files[0].On)
}

// aead are the cipher suites of TLS 1.2 that are offered; those of 1.3 are fixed. The others of
// crypto/tls encrypt with CBC after they have authenticated, or have no forward secrecy.
var aead = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256}

// Check makes Config of the keys, and reports errors at the table of the file. A Config that is
// there already, of a program, has what the keys leave open. A client gets a certificate for its
// SNI, see Offer.
func (t *TLS) Check(c Context) {
	if !t.On() {
		if t.Table.Has("tls") && len(t.Files) == 0 {
			t.Table.Errorf("tls", "expected at least one { cert = ..., key = ... }")
		}
		for key, wanted := range map[string]bool{"min_version": t.Table.Has("min_version"),
			"client_ca": t.Table.Has("client_ca"), "client_cert": t.Table.Has("client_cert"),
			"client_crl": t.Table.Has("client_crl"), "strict_sni": t.Strict} {
			if wanted {
				t.Table.Errorf(key, "needs the key tls beside it")
			}
		}
		return
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, CipherSuites: aead}
	if t.Config != nil {
		config = t.Config.Clone()
	}
	config.NextProtos = c.Protocols
	if t.MinVersion == "1.3" {
		config.MinVersion = tls.VersionTLS13
	}
	if t.Files[0].On == nil {
		t.pairs = c.pairs(t.Files, nil, t.Strict)
	} else if len(t.Files) > 1 {
		t.Table.Errorf("tls", "expected true, or pairs of cert and key, not both")
	} else if c.Sites.Of == nil {
		t.Table.Errorf("tls", "expected { cert = ..., key = ... }: no [[site]] brings certificates here")
	}
	for i := range t.pairs {
		t.pairs[i].site = listenersOwn
	}
	t.sites, t.log = c.Sites, c.Log
	t.addSites(c.Dir)
	t.clients = t.Clients.verifier(c.Dir)
	t.clients.apply(config)
	t.Config = config
	t.certify()
}

// pairs reads the pairs of a key tls, and reports errors at its table. hosts are those of a site;
// nil: the key is a listener's.
func (c *Context) pairs(files []Files, hosts []string, strict bool) (all []pair) {
	for _, f := range files {
		switch {
		case f.ACME && (f.Cert != "" || f.Key != "" || f.KeyPassword != ""):
			f.Table.Errorf("acme", "stands in the place of cert and key")
			continue
		case f.Joint && (!f.ACME || hosts == nil):
			f.Table.Errorf("joint", "is for acme = true of a site")
			continue
		case f.ACME && c.ACME == nil:
			f.Table.Errorf("acme", "needs acme = { domains = [...] } in the table [tls]")
			continue
		case f.ACME:
			domains := c.ACME.Domains
			if hosts != nil {
				domains = c.ACME.entries(hosts)
			}
			all = append(all, c.ACME.pairs(c.Reader, domains, time.Now(), f.Table.Position(""))...)
			continue
		case f.Cert == "" || f.Key == "":
			f.Table.Errorf("", "expected both cert and key, paths of PEM files, or acme = true")
			continue
		}
		p := pair{cert: confpath.Join(c.Dir, f.Cert), key: confpath.Join(c.Dir, f.Key),
			password: f.KeyPassword,
			position: f.Table.Position(""), strict: strict, table: f.Table}
		if err := c.Reader.load(&p, time.Now()); err != nil {
			f.Table.Errorf("", "%v", err)
			continue
		}
		if mustStaple(p.leaf) {
			f.Table.Errorf("cert", "%s: the certificate demands a stapled OCSP response (must-staple, "+
				"RFC 7633), so clients would refuse it: responses are not stapled, as authorities have "+
				"ended OCSP. Have a new certificate issued without that", p.cert)
			continue
		}
		all = append(all, p)
	}
	return all
}

// certify makes Config and offer of the certificates that were read.
func (t *TLS) certify() {
	t.Config = t.Config.Clone() // handshakes use the old one
	t.offer = newOffer(t)
}

// Offer returns what handshakes at the listener use; nil: it has no TLS.
func (t *TLS) Offer() *Offer {
	if t.offer == nil && t.Config != nil { // of a program
		t.offer = offerOf(t.Config)
	}
	return t.offer
}

// Explain says in words which certificate a client gets that asks for a name.
func (t *TLS) Explain(name string) string {
	all, named := t.Offer().choices(name)
	if all == nil {
		all = t.offer.first
	}
	if all == nil || t.offer.isMissing(name) && !named {
		return "no certificate yet"
	}
	if t.Strict && !named {
		return "turned away by strict_sni, since no certificate is for the name"
	}
	for i := range t.pairs {
		if p := &t.pairs[i]; p.leaf == all[0].Leaf {
			says := fmt.Sprintf("certificate %s (%s)", p.cert, p.position)
			if !named {
				says += ", which is not for that name"
			}
			return says
		}
	}
	return "certificate of the program"
}

// Stricter reports whether t asks more of its clients than old did at the same address: TLS, a
// later version of it, a certificate, one of another authority, or one that is not revoked.
// Stricter does not know what the GetConfigForClient of a program's tls.Config decides.
func (t *TLS) Stricter(old *TLS) bool {
	if t.Config == nil || old.Config == nil {
		return t.Config != nil
	}
	least := func(c *tls.Config) uint16 { return cmp.Or(c.MinVersion, tls.VersionTLS12) }
	verified := t.Config.ClientAuth >= tls.VerifyClientCertIfGiven
	return least(t.Config) > least(old.Config) || t.Config.ClientAuth > old.Config.ClientAuth ||
		verified && !t.Config.ClientCAs.Equal(old.Config.ClientCAs) || t.Strict && !old.Strict ||
		t.clients.stricter(old.clients) || t.stricterSites(old)
}

// Renew reads the certificates and lists whose files have changed. renewed says that there is a new
// Config, and stricter that a certificate was revoked, so that clients are refused who were not
// before. If a pair cannot be used, the old one stays in force until the files change again (one of
// the two may still be written) or can be read. Renew logs what it does. It logs only once that
// files cannot be read.
func (t *TLS) Renew(now time.Time, log *slog.Logger) (renewed, stricter bool) {
	for v := range t.verifiers() {
		if v.crl != nil {
			_, more := v.crl.Renew(now, log) // handshakes use it at once
			stricter = stricter || more
		}
	}
	for i := range t.pairs {
		p := &t.pairs[i]
		if !p.changed(now) {
			continue
		}
		stamp, leaf := p.stamp, p.leaf
		err := p.load(now)
		if p.stamp == stamp && p.leaf.Equal(leaf) {
			continue
		}
		renewed = true
		if err != nil {
			log.Error("certificate cannot be renewed, the old one stays", "cert", p.cert, "error", err)
		}
		for _, c := range p.warnings(now) {
			c.Warn(log)
		}
		switch {
		case err != nil:
		case p.domain != "":
			log.Info("certificate obtained", "domain", p.domain, "expires", p.leaf.NotAfter)
		default:
			log.Info("certificate renewed", "cert", p.cert, "names", p.leaf.DNSNames,
				"expires", p.leaf.NotAfter)
		}
	}
	if renewed {
		t.certify()
	}
	return renewed, stricter
}

// Set is the TLS of all listeners of a configuration.
type Set []*TLS

// Obtains reports whether a listener has certificates that are to be obtained.
func (s Set) Obtains() bool {
	return slices.ContainsFunc(s, func(t *TLS) bool {
		return slices.ContainsFunc(t.pairs, func(p pair) bool { return p.domain != "" })
	})
}

// Paths returns the files of certificates, keys, authorities and revocation lists.
func (s Set) Paths() (paths []string) {
	for _, t := range s {
		for _, p := range t.pairs {
			paths = append(paths, p.cert, p.key)
		}
		for v := range t.verifiers() {
			for _, p := range v.trusted[:min(1, len(v.trusted))] { // all are of one file
				paths = append(paths, p.cert)
			}
			if v.crl != nil {
				paths = append(paths, v.crl.Path())
			}
		}
	}
	return paths
}

// Warnings returns the problems of the certificates, and of the authorities of clients, for which
// one side refuses a certificate now, or will soon.
func (s Set) Warnings(now time.Time) (all []Warning) {
	type place struct {
		cert, position string
		strict         bool
	}
	seen := map[place]bool{} // a site's certificate may be at several listeners
	for _, t := range s {
		for i := range t.pairs {
			p := &t.pairs[i]
			if at := (place{p.cert, p.position, p.strict}); !seen[at] {
				seen[at] = true
				all = append(all, p.warnings(now)...)
			}
		}
		for v := range t.verifiers() {
			for i := range v.trusted {
				p := &v.trusted[i]
				at := place{p.cert, string(p.leaf.Raw), false}
				if what := p.timeProblem(now); what != "" && !seen[at] {
					seen[at] = true
					all = append(all, p.warning(fmt.Sprintf("of the authority %s %s", p.leaf.Subject, what)))
				}
			}
		}
	}
	return all
}

// Certificates returns the certificates for the status page, each file once.
func (s Set) Certificates() []metrics.Certificate {
	all, seen := []metrics.Certificate{}, map[string]bool{}
	for _, t := range s {
		for _, p := range t.pairs {
			if seen[p.cert] {
				continue
			}
			seen[p.cert] = true
			if p.leaf == nil {
				all = append(all, metrics.Certificate{File: p.cert, Names: names(p.domain)})
				continue
			}
			has := slices.Concat([]string{}, p.leaf.DNSNames) // not nil, for JSON
			for _, ip := range p.leaf.IPAddresses {
				has = append(has, ip.String())
			}
			all = append(all, metrics.Certificate{File: p.cert, Names: has, Until: p.leaf.NotAfter,
				WarnFrom: p.warnFrom()})
		}
	}
	return all
}

// Keep puts obtained certificates of before, which are in force, into s where their files cannot be
// read now: a file may be gone or belong to root, or no descriptor may be left. The Obtainer
// replaces such a certificate at its next review. Keep also does so where the certificate of the
// file is not valid yet.
func (s Set) Keep(before Set, log *slog.Logger) {
	inForce := map[string]pair{}
	for _, t := range before {
		for _, p := range t.pairs {
			if p.domain != "" && p.leaf != nil {
				inForce[p.cert] = p
			}
		}
	}
	for _, t := range s {
		for i, p := range t.pairs {
			old, ok := inForce[p.cert]
			early := ok && p.leaf != nil && old.precedes(p.leaf, time.Now())
			if !ok || p.leaf != nil && !early {
				continue
			}
			if early {
				old.rereadAt = p.leaf.NotBefore
			} else {
				log.Warn("certificate cannot be read, the one in force stays", "cert", p.cert, "error",
					p.loadErr)
			}
			old.position = p.position
			t.pairs[i] = old
			t.certify()
		}
	}
}

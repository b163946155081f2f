package certs

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"weak"

	"github.com/lwango/lwango/internal/base/ascii"
)

// ListenerConfig returns the tls.Config of a listener. Each handshake uses the Offer that current
// has at its time. The returned one stays over reloads, and with it the keys of session
// tickets, so a reload costs no client its session. With a Storage, several servers have the same
// keys.
func (o *Obtainer) ListenerConfig(current *atomic.Pointer[Offer]) *tls.Config {
	config := &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if answer := o.answer(hello); answer != nil {
			return answer, nil
		}
		c := current.Load().Config
		if c.GetConfigForClient == nil {
			return c, nil
		}
		own, err := c.GetConfigForClient(hello)
		if own == nil {
			return c, err
		}
		if len(own.NextProtos) == 0 {
			own = own.Clone()
			own.NextProtos = c.NextProtos
		}
		return OfferHTTP1(own), err
	}}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listeners = append(o.listeners, weak.Make(config))
	if len(o.tickets) > 0 {
		config.SetSessionTicketKeys(o.tickets)
	}
	return config
}

// OfferHTTP1 returns c, or a copy of it that offers HTTP/1.1, too; and HTTP/2, if c names no
// protocol. Other protocols of c, such as that of ACME's challenge, stay.
func OfferHTTP1(c *tls.Config) *tls.Config {
	const h1, h2 = "http/1.1", "h2"
	if slices.Contains(c.NextProtos, h1) {
		return c
	}
	c = c.Clone()
	if len(c.NextProtos) == 0 {
		c.NextProtos = []string{h2}
	}
	c.NextProtos = append(slices.Clip(c.NextProtos), h1)
	return c
}

// Offer is what handshakes at a listener use: the certificates in force, and which client gets
// which one. It does not change. Handshakes on any loop call its methods.
//
// A client gets a certificate for its SNI: of those that are for it, one of the site that answers
// for that name comes first. If none is for its SNI, and the site has the name among its hosts, the
// client gets one of the site's all the same. Otherwise it gets the listener's own first one or,
// where the listener has none, one of the site's.
type Offer struct {
	*tls.Config

	byName certNames
	own    bool                       // the listener has pairs of its own, which Config has
	first  []*tls.Certificate         // of all; one, or none
	sites  map[int][]*tls.Certificate // by index of the site that brings them
	siteOf func(sni string) int       // see Sites

	listener *verifier           // of the listener; nil: clients are not asked, or by Config
	clients  map[int]*verifier   // by index of the site that asks its clients itself
	configs  map[int]*tls.Config // of those sites

	missing map[string]bool // domains whose certificates are still to be obtained
	strict  bool
	log     *slog.Logger
}

// newOffer makes the Offer of t, and completes t.Config.
func newOffer(t *TLS) *Offer {
	o := &Offer{Config: t.Config, byName: certNames{}, sites: map[int][]*tls.Certificate{},
		siteOf: t.sites.Of, missing: map[string]bool{}, strict: t.Strict, log: t.log}
	o.Certificates, o.GetConfigForClient, o.GetCertificate = nil, nil, o.certificate
	for i := range t.pairs {
		p := &t.pairs[i]
		if p.leaf == nil {
			for _, name := range names(p.domain) {
				o.missing[name] = true
			}
			continue
		}
		cert := new(p.tlsCert) // Renew changes p
		o.byName.add(cert)
		if p.site == listenersOwn {
			o.own, o.Certificates = true, append(o.Certificates, p.tlsCert)
		} else {
			o.sites[p.site] = append(o.sites[p.site], cert)
		}
		if o.first == nil {
			o.first = []*tls.Certificate{cert}
		}
	}
	o.listener, o.clients, o.configs = t.clients, t.ofSites, map[int]*tls.Config{}
	for i, v := range o.clients {
		c := o.Config.Clone()
		v.apply(c)
		o.configs[i] = c
	}
	if o.strict || len(o.missing) > 0 || len(o.configs) > 0 {
		o.GetConfigForClient = o.configFor
	}
	return o
}

// offerOf returns the Offer for the tls.Config of a program.
func offerOf(c *tls.Config) *Offer {
	o := &Offer{Config: c, byName: certNames{}}
	for i := range c.Certificates {
		o.byName.add(&c.Certificates[i])
	}
	if len(c.Certificates) > 0 {
		o.first = []*tls.Certificate{&c.Certificates[0]}
	}
	return o
}

// choices returns the certificates for a client, best first; named says that they are for its SNI.
func (o *Offer) choices(sni string) (all []*tls.Certificate, named bool) {
	var own []*tls.Certificate
	site, other := listenersOwn, listenersOwn
	if o.siteOf != nil && len(o.sites) > 0 {
		site = o.siteOf(sni)
		own = o.sites[site]
	}
	var others []*tls.Certificate
	for cert := range o.byName.matching(sni) {
		if slices.Contains(own, cert) {
			all = append(all, cert)
		} else {
			others = append(others, cert)
		}
	}
	if all = append(all, others...); len(all) > 0 {
		return all, true
	}
	if own != nil && o.own {
		other = o.siteOf("")
	}
	switch {
	case own != nil && (!o.own || site != other):
		return own, false
	case o.own:
		return nil, false // crypto/tls chooses one of Certificates
	}
	return o.first, false
}

// certificate is for GetCertificate. Without it, crypto/tls gives a client that can use none of the
// certificates for its SNI the first one of the configuration, which may be for another name.
func (o *Offer) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	all, _ := o.choices(hello.ServerName)
	nameless := *hello // what is left to compare are the algorithms
	nameless.ServerName = ""
	for _, cert := range all {
		if nameless.SupportsCertificate(cert) == nil {
			return cert, nil
		}
	}
	if len(all) > 0 {
		return all[len(all)-1], nil // the handshake fails
	}
	return nil, nil // crypto/tls takes another one, if there is one
}

// configFor is for GetConfigForClient. It returns the Config of the site that the client's SNI
// leads to, if that asks for certificates itself, and nil for o's Config. It turns clients away
// whose SNI none of the certificates is for: with strict_sni all of these, and clients without SNI;
// otherwise only clients that ask for one of the missing domains. crypto/tls also calls it before
// it resumes a session, when it does not call GetCertificate.
func (o *Offer) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	var own *tls.Config
	if len(o.configs) > 0 {
		own = o.configs[o.siteOf(hello.ServerName)]
	}
	for range o.byName.matching(hello.ServerName) {
		return own, nil
	}
	if o.isMissing(hello.ServerName) {
		o.log.Warn("conn: client turned away, its certificate is still to be obtained", "domain",
			strings.ToLower(hello.ServerName))
		return none, nil
	}
	if o.strict {
		return none, nil
	}
	return own, nil
}

// isMissing reports whether a certificate for a name is still to be obtained.
func (o *Offer) isMissing(sni string) bool {
	name := strings.TrimSuffix(ascii.ToLower(sni), ".")
	_, rest, ok := strings.Cut(name, ".")
	return o.missing[name] || ok && o.missing["*."+rest]
}

// ClientVerify returns the result of the verification of a client's certificate: None, Success or
// Failed with its reason, as the variable ssl_client_verify of nginx; "" if the client was not
// asked for one.
func (o *Offer) ClientVerify(conn *tls.Conn) string {
	if o == nil || o.listener == nil && len(o.clients) == 0 && o.ClientAuth == tls.NoClientCert {
		return ""
	}
	state := conn.ConnectionState()
	v := o.listener
	if len(o.clients) > 0 {
		v = cmp.Or(o.clients[o.siteOf(state.ServerName)], v)
	}
	switch {
	case v != nil:
		return v.result(&state)
	case o.ClientAuth == tls.NoClientCert:
		return ""
	case len(state.PeerCertificates) == 0: // a program asks for it
		return None
	case len(state.VerifiedChains) == 0:
		return Failed + "not verified"
	}
	return Success
}

// none has no certificate, so crypto/tls sends the alert unrecognized_name (RFC 6066 section 3).
var none = &tls.Config{SessionTicketsDisabled: true}

// Misdirected reports whether a request for host needs another connection: a certificate is for
// host, and a client whose SNI is sni is shown another one. If no certificate is for host, no
// connection would be better.
func (o *Offer) Misdirected(sni, host string) bool {
	if o == nil {
		return false
	}
	for range o.byName.matching(host) {
		shown, _ := o.choices(sni)
		if shown == nil {
			shown = o.first
		}
		return !slices.ContainsFunc(shown, func(c *tls.Certificate) bool { return hasName(c.Leaf, host) })
	}
	return false
}

func hasName(cert *x509.Certificate, name string) bool {
	return name != "" && cert != nil && cert.VerifyHostname(name) == nil
}

// certNames has certificates by their DNS names in lower case, wildcards included, each list in the
// order of the configuration. A handshake looks up two names, however many there are.
type certNames map[string][]*tls.Certificate

// add adds a certificate whose Leaf is there.
func (n certNames) add(cert *tls.Certificate) {
	if cert.Leaf == nil {
		return
	}
	for _, name := range cert.Leaf.DNSNames {
		name = ascii.ToLower(name)
		n[name] = append(n[name], cert)
	}
}

// matching returns the certificates for the name that a client asks for (SNI, which is never an
// address: RFC 6066 section 3): first those with the name itself, then those with a wildcard for
// it.
func (n certNames) matching(sni string) iter.Seq[*tls.Certificate] {
	return func(yield func(*tls.Certificate) bool) {
		name := strings.TrimSuffix(ascii.ToLower(sni), ".")
		keys := []string{name}
		if label, rest, ok := strings.Cut(name, "."); ok && label != "" && label != "*" {
			keys = append(keys, "*."+rest)
		}
		for _, key := range keys {
			for _, cert := range n[key] {
				if cert.Leaf.VerifyHostname(sni) == nil && !yield(cert) {
					return
				}
			}
		}
	}
}

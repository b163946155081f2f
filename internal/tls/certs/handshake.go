package certs

import (
	"crypto/tls"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/acme"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Live returns the configuration of a listener that is served. Handshakes go by what current holds
// at their time. It stays, and with it the keys of session tickets: so a reload costs no client its
// session.
func (o *Obtainer) Live(current *atomic.Pointer[tls.Config]) *tls.Config {
	return &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if answer := o.answer(hello); answer != nil {
			return answer, nil
		}
		c := current.Load()
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
		return Offer(own), err
	}}
}

// answer returns what an authority gets that verifies a domain (RFC 8737), and nil for all other
// clients. It is the same at all listeners.
func (o *Obtainer) answer(hello *tls.ClientHelloInfo) *tls.Config {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != acme.ALPNProto {
		return nil
	}
	answer, ok := o.answers.Load(strings.ToLower(hello.ServerName))
	if !ok {
		return nil // crypto/tls finds no protocol then
	}
	return &tls.Config{Certificates: []tls.Certificate{*answer.(*tls.Certificate)},
		NextProtos: []string{acme.ALPNProto}, SessionTicketsDisabled: true}
}

// Offer returns c, or a copy of it that offers HTTP/1.1, too; and HTTP/2, if c names no protocol.
// What else there is, such as the protocol by which a certificate is asked for, stays.
func Offer(c *tls.Config) *tls.Config {
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
// for: if strict, all of them, and those that send none, and otherwise those that ask for one of
// the missing domains. It is asked before a session is resumed; then crypto/tls asks for no
// certificate.
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

// certNames has certificates by their DNS names in lower case, wildcards included, each list in the
// order of the configuration. A handshake looks two of them up, however many there are.
type certNames map[string][]*tls.Certificate

func index(certs []tls.Certificate) certNames {
	all := certNames{}
	for i := range certs {
		for _, name := range certs[i].Leaf.DNSNames {
			name = ascii.ToLower(name)
			all[name] = append(all[name], &certs[i])
		}
	}
	return all
}

// of returns the certificates for the name that a client asks for (SNI, which is never an address:
// RFC 6066 section 3): first those that have it itself, and then those with a wildcard for it.
func (n certNames) of(sni string) iter.Seq[*tls.Certificate] {
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

// Elsewhere reports whether another certificate is for host than those that a client is shown which
// asks for the name sni. If none is for host, the answer is the same by any connection.
func Elsewhere(c *tls.Config, sni, host string) bool {
	if c == nil {
		return false
	}
	known := slices.ContainsFunc(c.Certificates, func(cert tls.Certificate) bool {
		return isFor(&cert, sni)
	})
	own := false
	for i := range c.Certificates {
		cert := &c.Certificates[i]
		if !isFor(cert, host) {
			continue
		}
		if shown := i == 0; known && isFor(cert, sni) || !known && shown {
			return false
		}
		own = true
	}
	return own
}

func isFor(cert *tls.Certificate, name string) bool {
	return name != "" && cert.Leaf != nil && cert.Leaf.VerifyHostname(name) == nil
}

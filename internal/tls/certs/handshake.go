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

// ListenerConfig returns the tls.Config of a listener. Each handshake uses the tls.Config that
// current has at its time. The returned one stays over reloads, and with it the keys of session
// tickets, so a reload costs no client its session.
func (o *Obtainer) ListenerConfig(current *atomic.Pointer[tls.Config]) *tls.Config {
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
		return OfferHTTP1(own), err
	}}
}

// answer returns the tls.Config for an authority that verifies a domain (RFC 8737), and nil for all
// other clients. It is the same at all listeners.
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

// certificateBySNI returns a GetCertificate that gives clients a certificate for their SNI, if
// there is one. Without this function, crypto/tls gives a client that can use none of these
// certificates the first one of the configuration, which may be for another name.
func certificateBySNI(
	certs []tls.Certificate,
) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	byName := indexByName(certs)
	return func(hello *tls.ClientHelloInfo) (own *tls.Certificate, err error) {
		for cert := range byName.matching(hello.ServerName) {
			if hello.SupportsCertificate(cert) == nil {
				return cert, nil
			}
			own = cert // the handshake fails, unless there is another one
		}
		return own, nil // nil: crypto/tls takes another one
	}
}

// rejectUnknownNames returns a GetConfigForClient that turns clients away whose SNI none of the
// certificates is for. If strict, it turns away all of these, and clients without SNI; otherwise
// only clients that ask for one of the missing domains. crypto/tls also calls it before it resumes
// a session, when it does not call GetCertificate.
func rejectUnknownNames(certs []tls.Certificate, strict bool, missing []string,
	log *slog.Logger) func(*tls.ClientHelloInfo) (*tls.Config, error) {
	// Without a certificate crypto/tls sends the alert unrecognized_name (RFC 6066 section 3).
	none := &tls.Config{SessionTicketsDisabled: true}
	byName := indexByName(certs)
	return func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		for range byName.matching(hello.ServerName) {
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
// order of the configuration. A handshake looks up two names, however many there are.
type certNames map[string][]*tls.Certificate

func indexByName(certs []tls.Certificate) certNames {
	all := certNames{}
	for i := range certs {
		for _, name := range certs[i].Leaf.DNSNames {
			name = ascii.ToLower(name)
			all[name] = append(all[name], &certs[i])
		}
	}
	return all
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

// Misdirected reports whether a request for host needs another connection: a certificate is for
// host, and a client whose SNI is sni is shown another one. If no certificate is for host, no
// connection would be better.
func Misdirected(c *tls.Config, sni, host string) bool {
	if c == nil {
		return false
	}
	known := slices.ContainsFunc(c.Certificates, func(cert tls.Certificate) bool {
		return hasName(&cert, sni)
	})
	own := false
	for i := range c.Certificates {
		cert := &c.Certificates[i]
		if !hasName(cert, host) {
			continue
		}
		if shown := i == 0; known && hasName(cert, sni) || !known && shown {
			return false
		}
		own = true
	}
	return own
}

func hasName(cert *tls.Certificate, name string) bool {
	return name != "" && cert.Leaf != nil && cert.Leaf.VerifyHostname(name) == nil
}

package server

import (
	"crypto/tls"
	"iter"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
)

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

package certs

import (
	"crypto/tls"
	"iter"
)

func Index(all []tls.Certificate) certNames {
	n := certNames{}
	for i := range all {
		n.add(&all[i])
	}
	return n
}

func (n certNames) Of(sni string) iter.Seq[*tls.Certificate] { return n.matching(sni) }

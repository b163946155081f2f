package certs

import (
	"crypto/tls"
	"iter"
)

var Index = indexByName

func (n certNames) Of(sni string) iter.Seq[*tls.Certificate] { return n.matching(sni) }

package certs

import (
	"crypto/tls"
	"iter"
)

var Index = index

func (n certNames) Of(sni string) iter.Seq[*tls.Certificate] { return n.of(sni) }

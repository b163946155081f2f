package server

import (
	"cmp"
	"crypto/tls"
	"slices"
)

// stricter reports whether l asks more of its clients than old did at the same address: TLS, a
// later version of it, a certificate, or one of another authority. What a tls.Config of the program
// decides in GetConfigForClient is the program's own.
func (l *listenerConfig) stricter(old *listenerConfig) bool {
	if l.TLS == nil || old.TLS == nil {
		return l.TLS != nil
	}
	least := func(c *tls.Config) uint16 { return cmp.Or(c.MinVersion, tls.VersionTLS12) }
	verified := l.TLS.ClientAuth >= tls.VerifyClientCertIfGiven
	return least(l.TLS) > least(old.TLS) || l.TLS.ClientAuth > old.TLS.ClientAuth ||
		verified && !l.TLS.ClientCAs.Equal(old.TLS.ClientCAs) || l.Strict && !old.Strict
}

// tighten lets the listeners of next that ask for more than before do so from now on. It comes
// before all else of next, so that no client gets anything of that without what next asks for. It
// reports whether there are any; then conn.Server.Outdate has to be called.
func (s *server) tighten(next *config) (any bool) {
	for i := range next.Listeners {
		lc := &next.Listeners[i]
		l := s.listeners[lc.Address]
		at := slices.IndexFunc(s.config.Listeners, func(old listenerConfig) bool {
			return old.Address == lc.Address
		})
		if l == nil || at < 0 || !lc.stricter(&s.config.Listeners[at]) {
			continue
		}
		if l.certs != nil {
			l.certs.Store(lc.TLS)
		}
		l.terms.Add(1)
		any = true
		s.own.Info("a listener asks for more than before, its connections end with the answers that "+
			"are under way", "address", l.socket.Shown)
	}
	return any
}

package config

import (
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/networks"
)

// parseProxies sets Proxies by the keys about proxies. It gives report each error, with its key.
func (l *Listener) parseProxies(report func(key, format string, args ...any)) {
	switch {
	case len(l.TrustedProxies) > 0:
	case l.Table.Has("trusted_proxies"):
		report("trusted_proxies", `expected at least one network, such as "10.0.0.0/8", or "unix:"`)
		return
	case l.ProxyProtocol:
		report("proxy_protocol", "needs trusted_proxies, since anyone else could name any address "+
			"as the client's")
		return
	case l.ProxyFields != "":
		report("proxy_fields", "needs trusted_proxies: no other peer is believed")
		return
	default:
		return
	}
	p := &conn.Proxies{Protocol: l.ProxyProtocol, Standard: l.ProxyFields == "forwarded",
		RealIP: l.ProxyFields == "x-real-ip"}
	for _, text := range l.TrustedProxies {
		if text == networks.Unix {
			p.UNIX = true
			continue
		}
		network, err := networks.Prefix(text)
		if err != nil {
			report("trusted_proxies", "%v", err)
			continue
		}
		p.Networks = append(p.Networks, network)
	}
	l.Proxies = p
}

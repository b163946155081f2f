package server

import (
	"errors"
	"net/netip"

	"github.com/lwango/lwango/conn"
)

// parseProxies makes Proxies of the keys about proxies.
func (l *listenerConfig) parseProxies() {
	switch {
	case len(l.TrustedProxies) > 0:
	case l.Table.Has("trusted_proxies"):
		l.Table.Errorf("trusted_proxies", `expected at least one network, such as "10.0.0.0/8", `+
			`or "unix:"`)
		return
	case l.ProxyProtocol:
		l.Table.Errorf("proxy_protocol", "needs trusted_proxies, since anyone else could name "+
			"any address as the client's")
		return
	case l.Table.Has("proxy_fields"):
		l.Table.Errorf("proxy_fields", "needs trusted_proxies: no other peer is believed")
		return
	default:
		return
	}
	p := &conn.Proxies{Protocol: l.ProxyProtocol, Standard: l.ProxyFields == "forwarded"}
	for _, text := range l.TrustedProxies {
		if text == "unix:" {
			p.UNIX = true
			continue
		}
		network, err := parseNetwork(text)
		if err != nil {
			l.Table.Errorf("trusted_proxies", "%q: %v", text, err)
			continue
		}
		p.Networks = append(p.Networks, network)
	}
	l.Proxies = p
}

var errNetwork = errors.New(`expected a network, such as "10.0.0.0/8", an IP address, or "unix:"`)

// parseNetwork reads a network, or an address as the network of that one.
func parseNetwork(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	network, err := netip.ParsePrefix(s)
	if err != nil {
		return network, errNetwork
	}
	if addr := network.Addr(); addr.Is4In6() {
		// The addresses of IPv4 clients are compared as such, on every socket.
		if network.Bits() < 96 {
			return network, errNetwork
		}
		network = netip.PrefixFrom(addr.Unmap(), network.Bits()-96)
	}
	if network != network.Masked() {
		return network, errors.New("has bits behind its length; expected " +
			network.Masked().String())
	}
	return network, nil
}

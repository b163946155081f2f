package conn

import (
	"net/netip"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
)

// proxies returns what is configured for the listener; nil: nothing.
func (p *port) proxies(set *settings) *Proxies {
	if len(set.Proxies) == 0 {
		return nil
	}
	return set.Proxies[p.Name]
}

// applyForwarded takes over what trusted proxies say of the client in the header fields of r.
func (r *Request) applyForwarded(p *Proxies) {
	if !p.trusts(r.x.c.remote) {
		return
	}
	r.proxied = true
	var said http1.Origin
	switch {
	case p.Standard:
		said = r.head.Forwarded(r.raw, p.trust)
	case p.RealIP: // of several values a client may have sent the first ones
		said = r.head.XForwarded(r.raw, "X-Real-IP", func(netip.Addr) bool { return false })
	default:
		said = r.head.XForwarded(r.raw, "X-Forwarded-For", p.trust)
	}
	r.client, r.scheme = said.Client, said.Scheme
	if r.scheme == http1.UnknownScheme && r.x.protocol != "" && r.head.Secure {
		r.scheme = http1.HTTPS // HTTP/2 has the client's scheme in each request
	}
	if said.Host.Len() > 0 {
		r.head.Host = said.Host
	}
}

// Proxied reports whether a trusted proxy has sent the request (Config.Proxies), so that its fields
// X-Forwarded-For, -Proto and -Host, or Forwarded, are to be believed. RemoteAddr, Secure and Host
// follow them already.
func (r RequestLayer) Proxied() bool { return r.proxied }

// AppendHops appends the addresses of the proxies between the client and this server, from the
// client's on, as far as the request is Proxied and its fields are to be believed. The last one is
// the proxy that has asked this server; of a UNIX socket it is the zero Addr.
func (r RequestLayer) AppendHops(hops []netip.Addr) []netip.Addr {
	if r.over() || !r.proxied {
		return hops
	}
	p := r.x.c.port.proxies(r.x.set)
	if p == nil { // a reload has removed it meanwhile
		return hops
	}
	if !p.RealIP { // which names none
		hops = r.head.AppendHops(hops, r.raw, p.Standard, p.trust)
	}
	if r.client.IsValid() {
		hops = append(hops, r.x.c.remote.addrPort().Addr().Unmap().WithZone(""))
	}
	return hops
}

// PeerAddr returns the address of the other end of the connection, which is a proxy's if there is
// one; the zero AddrPort on UNIX sockets. It may need a system call, and fails with the zero
// AddrPort if the peer has reset the connection.
func (r *Request) PeerAddr() netip.AddrPort {
	if r.over() {
		return netip.AddrPort{}
	}
	if w := r.x.c.proxyHeader(); w != nil && w.known && w.original == nil {
		return sysio.PeerAddr(r.x.c.FD())
	}
	return r.x.c.remote.addrPort()
}

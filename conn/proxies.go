package conn

import (
	"net/netip"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/loop"
)

// Proxies says which peers of a listener are proxies that may speak for their clients. It must not
// change while a Server uses it.
type Proxies struct {
	Networks []netip.Prefix // of the peers; an IPv4 peer is never in an IPv6 network
	UNIX     bool           // peers on UNIX sockets are trusted as well

	// Standard says that the proxies set Forwarded (RFC 7239). Otherwise they set X-Forwarded-For,
	// -Proto and -Host. The server does not believe the other ones, since proxies pass on what they
	// do not set themselves, and that may be the client's invention.
	Standard bool

	// Protocol says that each connection begins with a header of the PROXY protocol, version 1 or
	// 2, ahead of TLS. Peers that are not trusted are turned away.
	Protocol bool
}

// trust reports whether an address is a proxy's.
func (p *Proxies) trust(addr netip.Addr) bool {
	if !addr.IsValid() {
		return p.UNIX
	}
	for _, n := range p.Networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// trusts is trust for a peer; p may be nil.
func (p *Proxies) trusts(from peer) bool { return p != nil && p.trust(from.addrPort().Addr()) }

// proxies returns what is configured for the listener; nil: nothing.
func (p *port) proxies(set *settings) *Proxies {
	if len(set.Proxies) == 0 {
		return nil
	}
	return set.Proxies[p.Name]
}

// believe takes over what trusted proxies say of the client in the header fields of r.
func (r *Request) believe(p *Proxies) {
	if !p.trusts(r.x.c.remote) {
		return
	}
	r.proxied = true
	var said http1.Origin
	if p.Standard {
		said = r.head.Forwarded(r.raw, p.trust)
	} else {
		said = r.head.XForwarded(r.raw, p.trust)
	}
	r.client, r.scheme = said.Client, said.Scheme
	if said.Host.Len() > 0 {
		r.head.Host = said.Host
	}
}

// Proxied reports whether a trusted proxy has sent the request (Config.Proxies), so that its fields
// X-Forwarded-For, -Proto and -Host, or Forwarded, are to be believed. RemoteAddr, Secure and Host
// follow them already.
func (r RequestLayer) Proxied() bool { return r.proxied }

// PeerAddr returns the address of the other end of the connection, which is a proxy's if there is
// one; the zero AddrPort on UNIX sockets. It may need a system call, and fails with the zero
// AddrPort if the peer has reset the connection.
func (r *Request) PeerAddr() netip.AddrPort {
	if r.over() {
		return netip.AddrPort{}
	}
	if w := r.x.c.introduced(); w != nil && w.known && w.front == nil {
		return loop.PeerAddr(r.x.c.FD())
	}
	return r.x.c.remote.addrPort()
}

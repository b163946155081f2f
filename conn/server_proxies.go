package conn

import (
	"context"
	"crypto/tls"
	"net/netip"
	"unsafe"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// withHeader is the record of a connection that begins with a header of the PROXY protocol, or of a
// request without a connection of its own (Errand). Others do not pay for it.
type withHeader struct {
	connection // first, see introduced

	// Set before any request, by introduce or by RequestLayer.errand.
	known bool // there are addresses; remote is the client's then, and not the peer's
	local peer // the address that the client connected to

	front *front // nil: the PROXY protocol
}

// front is what a request without a connection of its own has of the request that it copies.
type front struct {
	ctx context.Context      // its values are those of the other request's
	tls *tls.ConnectionState // of the client's connection; nil: plain
}

// introduced returns c as what it is a part of; nil: there is no header to come and has been none.
func (c *connection) introduced() *withHeader {
	if c.state&headed == 0 {
		return nil
	}
	return (*withHeader)(unsafe.Pointer(c)) // newConnection has made both in one piece
}

// newConnection makes the record of a connection that was accepted.
func (p *port) newConnection(remote netip.AddrPort, header bool) *connection {
	if !header {
		return &connection{port: p, remote: peerOf(remote), state: p.terms.first.state()}
	}
	w := new(withHeader)
	w.port, w.remote, w.state = p, peerOf(remote), headed|p.terms.first.state()
	return &w.connection
}

// httpsPort is where a client does not speak http. A proxy whose header does not tell of TLS has
// ended it if the client has connected to this port, and the connection is plain.
const httpsPort = 443

// refuseStranger closes a connection whose peer may not speak for others. It gets no answer: it
// expects a protocol that the server does not speak with it.
func (p *port) refuseStranger(fd int, from peer, set *settings) {
	s := p.server
	s.strangers.Add(1)
	if s.strangerNote.now(p.loop) {
		set.Logger.Warn("conn: connections closed, their peers are not among trusted_proxies, and "+
			"the listener has proxy_protocol", "listener", p.Name, "peer", from.addrPort(),
			"closed", s.strangers.Swap(0))
	}
	sysio.Close(fd)
}

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
	hops = r.head.AppendHops(hops, r.raw, p.Standard, p.trust)
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
	if w := r.x.c.introduced(); w != nil && w.known && w.front == nil {
		return loop.PeerAddr(r.x.c.FD())
	}
	return r.x.c.remote.addrPort()
}

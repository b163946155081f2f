package conn

import (
	"log/slog"
	"net/netip"
)

// Config is the configuration of a Server.
type Config struct {
	Limits

	Handler Handler // nil: every answer is a 404

	// Reserved is how many descriptors the process needs for other things than connections. By
	// default MaxConnections leaves as many.
	Reserved int

	// Proxies says, by the name of a Listener, which of its peers are proxies; absent: none.
	Proxies map[string]*Proxies

	// LargestBodySize is how far Body.ReplaceLimit can raise MaxBodySize for a request. Beyond it no
	// handler runs, see Refuses. 0: not at all.
	LargestBodySize int64

	// Refuses says that Handler itself answers 413 to a request that is TooLarge, so that the answer
	// gets the page of whom the request was for. Else Handler does not get such a request.
	Refuses bool

	// Leaving ends each connection behind its next answer, which says so. An idle one waits for that
	// request, or for the end of KeepAliveTimeout: to close it at once could lose a request that is
	// on its way.
	Leaving bool

	// Count says that requests are counted by route, see Stats. It costs two looks at the clock for
	// each request.
	Count bool

	// RouteName names the route that counts by a number (see RequestLayer.SetCounter) in lines of
	// Logger about its requests; nil: they name none. It may be called on any goroutine.
	RouteName func(counter uint32) (host, route string)

	Headers   []Field      // added to every response that does not set them
	AccessLog AccessLog    // nil: none
	Logger    *slog.Logger // nil: slog.Default
}

// settings is a Config made ready for use.
type settings struct {
	Config
	fields []byte // Headers, in wire form
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

	// RealIP says that the proxies set X-Real-IP, to one address, in place of X-Forwarded-For.
	RealIP bool

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

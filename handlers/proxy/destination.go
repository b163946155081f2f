package proxy

import (
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// destinationField is where a client of WebDAV says to which address MOVE and COPY lead (RFC 4918
// section 10.3).
const destinationField = "Destination"

// destinationsInside reports whether all addresses in Destination fields of the request can be said
// to the upstream. An address of this server that is not the route's cannot: the upstream would
// take it for one of its own.
func (c *call) destinationsInside() bool {
	l := c.Req.Layer()
	value, next := l.HeaderViewFrom(destinationField, 0)
	for ; next >= 0; value, next = l.HeaderViewFrom(destinationField, next) {
		if _, ok := c.m.mapBack.destination(c, string(value), ""); !ok {
			return false
		}
	}
	return true
}

// destination returns what the upstream is told of an address that the client has said: the
// opposite of mapped. host is what stands in Host for the upstream, "" if that is not known yet. An
// address of another server stays; so does what is none. The upstream's own name leads to no more
// of it than the route does.
func (b *mapBack) destination(c *call, address, host string) (mapped string, ok bool) {
	origin, rest := splitOrigin(address)
	scheme, authority, _ := strings.Cut(origin, "//")
	scheme = strings.TrimSuffix(scheme, ":")
	switch {
	case origin == "" && !strings.HasPrefix(rest, "/"):
		return address, true
	case origin == "":
	case authority == "", strings.Contains(authority, "@"): // RFC 9110 sections 4.2.1 and 4.2.4
		return "", false
	case sameServer(scheme, authority, c.Req.Host()):
	case b.usual && b.cut && b.foreign && sameServer(scheme, authority, host):
		return address, b.within(rest)
	default:
		return address, true
	}
	end := strings.IndexAny(rest, "?#")
	if end < 0 {
		end = len(rest)
	}
	raw, behind := rest[:end], rest[end:]
	path, err := http1.CleanPath(nil, []byte(raw))
	if err != nil {
		return "", false
	}
	sent := string(http1.Sent([]byte(raw)))
	for i := range b.locations {
		if below, of, ok := b.locations[i].reverse(c, origin, sent); ok {
			if strings.HasPrefix(of, "/") {
				of = b.upstreamOrigin(c, origin, host) + of
			}
			return of + below + behind, http1.ValidFieldValue(of)
		}
	}
	if b.usual && b.cut {
		prefix := strings.TrimSuffix(c.m.Env.Prefix, "/")
		if _, ok := cutFolder(string(path), prefix); !ok {
			return "", false
		}
		sent = string(c.m.path.append(nil, []byte(sent), len(prefix)))
	}
	if !b.usual {
		return address, true
	}
	return b.upstreamOrigin(c, origin, host) + sent + behind, true
}

// sameServer is sameAuthority for a name that a client has chosen: a program may take others for
// the same, as with a dot at the end or an empty port.
func sameServer(scheme, a, b string) bool {
	return sameAuthority(scheme, plainAuthority(a), plainAuthority(b))
}

func plainAuthority(authority string) string {
	host, port := http1.SplitPort(authority)
	host = strings.TrimSuffix(host, ".")
	if port = strings.TrimLeft(port, "0"); port != "" {
		host += ":" + port
	}
	return host
}

// within reports whether the path of an address of the upstream is one that the route leads to.
func (b *mapBack) within(rest string) bool {
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	path, err := http1.CleanPath(nil, []byte(rest))
	if err != nil {
		return false
	}
	_, ok := cutFolder(string(http1.AppendPath(nil, path)), b.to)
	return ok
}

// upstreamOrigin returns what stands for the client's name of the server: the scheme by which the
// upstream is asked, since many compare it with their own, and the host that it is told. An address
// without an origin gets none.
func (b *mapBack) upstreamOrigin(c *call, origin, host string) string {
	scheme, authority, _ := strings.Cut(origin, "//")
	if origin == "" {
		return ""
	}
	if scheme != "" {
		if scheme = "http:"; strings.HasPrefix(c.Up.Name(), "https://") {
			scheme = "https:"
		}
	}
	if b.foreign {
		authority = host
	}
	return scheme + "//" + authority
}

// reverse finds what a row of map_location would have made path of, an address of the client's
// host, and returns that, and what is below it. Expressions have no way back.
func (p *mapping) reverse(c *call, origin, path string) (below, from string, ok bool) {
	if p.re != nil || c.Req.Host() == "" && p.needsHost() {
		return "", "", false
	}
	to := p.expand(c.Req, c.Req.Host(), match{})
	named, start := splitOrigin(to)
	if start == "" || named != "" && !ascii.EqualFold(named, origin) {
		return "", "", false
	}
	below, ok = strings.CutPrefix(path, start)
	return below, p.from, ok
}

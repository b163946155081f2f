package http1

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"unsafe"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Origin describes a request's client by the fields of proxies. A zero field is unknown.
type Origin struct {
	Client netip.AddrPort // port 0: unknown
	Scheme Scheme
	Host   Span // a valid host[:port]
}

// Scheme is that of the client's request.
type Scheme uint8

// The schemes.
const (
	UnknownScheme Scheme = iota
	HTTP
	HTTPS
)

// XForwarded reads the field list, which is X-Forwarded-For or one in its place, X-Forwarded-Proto
// and X-Forwarded-Host. The caller has found that the peer is trusted. Each proxy has appended the
// address of its own peer to X-Forwarded-For. So the list is read from the right, as long as the
// addresses are those of trusted proxies: what stands left of an untrusted one, that one may have
// invented. A value that is no address ends the reading as well.
//
// Of the other two, proxies replace or append a value. If there are as many values as addresses,
// the one counts that came with the client's address; otherwise the last, which the nearest proxy
// has set.
func (h *Head) XForwarded(buf []byte, list string, trusted func(netip.Addr) bool) (o Origin) {
	values := h.lastFirst(buf, list, false)
	all, read, done := 0, 0, false
	for e, ok := values.next(); ok; e, ok = values.next() {
		if all++; done {
			continue
		}
		read++
		addr, ok := parseNode(e.Of(buf))
		if ok {
			o.Client = addr
		}
		done = !ok || !trusted(addr.Addr())
	}
	if e, ok := h.nth(buf, "X-Forwarded-Proto", read, all); ok {
		o.Scheme = parseScheme(e.Of(buf))
	}
	if e, ok := h.nth(buf, "X-Forwarded-Host", read, all); ok && validHost(e.Of(buf)) {
		o.Host = e
	}
	return o
}

// nth returns the n-th value from the right of a list that has all values, or the last one if it
// has another number of them.
func (h *Head) nth(buf []byte, name string, n, all int) (value Span, ok bool) {
	list := h.lastFirst(buf, name, false)
	var last Span
	count := 0
	for e, ok := list.next(); ok; e, ok = list.next() {
		if count++; count == 1 {
			last = e
		}
		if count == n {
			value = e
		}
	}
	if n == 0 || count != all {
		value = last
	}
	return value, count > 0
}

// Forwarded reads the field Forwarded (RFC 7239) in the same way as XForwarded. Scheme and host are
// those of the last element read, which is the one that has the client's address. An element that
// is malformed, or does not name an address, ends the reading.
//
// A list is cut up from its right end, so that an open quote in the part that a client has sent
// cannot hide what a proxy has appended to it. No value that counts here needs a backslash, and so
// an element that has one is malformed.
func (h *Head) Forwarded(buf []byte, trusted func(netip.Addr) bool) (o Origin) {
	list := h.lastFirst(buf, "Forwarded", true)
	for e, ok := list.next(); ok; e, ok = list.next() {
		node, scheme, host, ok := parseElement(buf, e)
		if !ok {
			return o
		}
		o.Scheme, o.Host = scheme, host
		addr, ok := parseNode(node.Of(buf))
		if !ok {
			return o
		}
		if o.Client = addr; !trusted(addr.Addr()) {
			return o
		}
	}
	return o
}

// AppendHops appends the addresses of the proxies behind the client that XForwarded, or with
// standard Forwarded, finds: those to the right of the client's, in order.
func (h *Head) AppendHops(
	hops []netip.Addr, buf []byte, standard bool, trusted func(netip.Addr) bool,
) []netip.Addr {
	name, from := "X-Forwarded-For", len(hops)
	if standard {
		name = "Forwarded"
	}
	list := h.lastFirst(buf, name, standard)
	for e, ok := list.next(); ok; e, ok = list.next() {
		if standard {
			if e, _, _, ok = parseElement(buf, e); !ok {
				break
			}
		}
		addr, ok := parseNode(e.Of(buf))
		if !ok {
			break
		}
		hops = append(hops, addr.Addr())
		if !trusted(addr.Addr()) {
			break
		}
	}
	if len(hops) > from {
		hops = hops[:len(hops)-1] // the client
	}
	slices.Reverse(hops[from:])
	return hops
}

// parseElement reads a forwarded-element, pairs of name and value with semicolons between them.
func parseElement(buf []byte, e Span) (node Span, scheme Scheme, host Span, ok bool) {
	var seen struct{ node, scheme, host bool }
	for rest := e; rest.Len() > 0; {
		var pair Span
		if pair, rest = cutLast(buf, rest, ';', true); pair.Len() == 0 {
			continue
		}
		text := pair.Of(buf)
		eq := bytes.IndexByte(text, '=')
		if eq < 1 || !ValidToken(text[:eq]) {
			return node, scheme, host, false
		}
		value, ok := unquoted(buf, Span{pair.Start + uint32(eq) + 1, pair.End})
		if !ok {
			return node, scheme, host, false
		}
		twice := false
		switch name := text[:eq]; {
		case ascii.EqualFold(name, "for"):
			twice, seen.node, node = seen.node, true, value
		case ascii.EqualFold(name, "proto"):
			twice, seen.scheme, scheme = seen.scheme, true, parseScheme(value.Of(buf))
		case ascii.EqualFold(name, "host"):
			if twice, seen.host = seen.host, true; validHost(value.Of(buf)) {
				host = value
			}
		}
		if twice {
			return node, scheme, host, false
		}
	}
	return node, scheme, host, true
}

// unquoted takes the quotes off a value that has some.
func unquoted(buf []byte, s Span) (Span, bool) {
	b := s.Of(buf)
	if len(b) >= 2 && b[0] == '"' && b[len(b)-1] == '"' {
		s.Start++
		s.End--
		b = s.Of(buf)
	}
	return s, bytes.IndexByte(b, '"') < 0 && bytes.IndexByte(b, '\\') < 0
}

func parseScheme(b []byte) Scheme {
	switch {
	case ascii.EqualFold(b, "https"), ascii.EqualFold(b, "wss"):
		return HTTPS
	case ascii.EqualFold(b, "http"), ascii.EqualFold(b, "ws"):
		return HTTP
	}
	return UnknownScheme
}

func validHost(b []byte) bool {
	host, _, ok := parseAuthority(b)
	return ok && host > 0
}

// parseNode reads an address, which may have a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1,
// [2001:db8::1], [2001:db8::1]:80. A port may be obfuscated (RFC 7239 section 6.3), and is unknown
// then.
func parseNode(b []byte) (node netip.AddrPort, ok bool) {
	host, rest := b, []byte(nil)
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || !validIPv6(b[1:end]) {
			return node, false
		}
		host, rest = b[1:end], b[end+1:]
	} else if i := bytes.IndexByte(b, ':'); i >= 0 && bytes.IndexByte(b[i+1:], ':') < 0 {
		host, rest = b[:i], b[i:]
	}
	if len(host) == 0 || !validIPv4(host) && !validIPv6(host) {
		return node, false
	}
	port := 0
	if len(rest) > 0 {
		if rest[0] != ':' || len(rest) == 1 {
			return node, false
		}
		if rest = rest[1:]; rest[0] == '_' {
			rest = nil
		}
		for _, c := range rest {
			if class[c]&isDigit == 0 {
				return node, false
			}
			if port = port*10 + int(c-'0'); port > 65535 {
				return node, false
			}
		}
	}
	// A string without a copy: ParseAddr keeps it in its error only.
	addr, err := netip.ParseAddr(unsafe.String(&host[0], len(host)))
	if err != nil {
		return node, false
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(port)), true
}

// lastFirst goes through the elements of all fields of a name, which are one list, from the last to
// the first. Empty elements do not count (RFC 9110 section 5.6.1).
type lastFirst struct {
	head   *Head
	buf    []byte
	name   string
	quotes bool // a comma between quotes is part of an element

	field int  // the fields before it are still to come
	rest  Span // of the value of a field
}

func (h *Head) lastFirst(buf []byte, name string, quotes bool) lastFirst {
	return lastFirst{head: h, buf: buf, name: name, quotes: quotes, field: len(h.Fields)}
}

func (l *lastFirst) next() (Span, bool) {
	for {
		for l.rest.Len() == 0 {
			if l.field--; l.field < 0 {
				l.field = 0
				return Span{}, false
			}
			f := &l.head.Fields[l.field]
			if f.Name.Len() == len(l.name) && ascii.EqualFold(f.Name.Of(l.buf), l.name) {
				l.rest = f.Value
			}
		}
		var e Span
		if e, l.rest = cutLast(l.buf, l.rest, ',', l.quotes); e.Len() > 0 {
			return e, true
		}
	}
}

// cutLast cuts the last element off a list, and the white space around it. With quotes, a separator
// between two of them is none.
func cutLast(buf []byte, list Span, separator byte, quotes bool) (last, rest Span) {
	b := list.Of(buf)
	i, quoted := len(b)-1, false
	for ; i >= 0 && (quoted || b[i] != separator); i-- {
		if quotes && b[i] == '"' {
			quoted = !quoted
		}
	}
	last, rest = Span{list.Start + uint32(i+1), list.End}, Span{list.Start, list.Start}
	if i >= 0 {
		rest.End += uint32(i)
	}
	const space = " \t"
	for last.Len() > 0 && strings.IndexByte(space, buf[last.Start]) >= 0 {
		last.Start++
	}
	for last.Len() > 0 && strings.IndexByte(space, buf[last.End-1]) >= 0 {
		last.End--
	}
	return last, rest
}

// AppendAddr is a.AppendTo in few lines of code for IPv4: a request on its way to an application
// goes through them once or twice, and what that costs is to fetch them.
func AppendAddr(dst []byte, a netip.Addr) []byte {
	if !a.Is4() {
		return a.AppendTo(dst)
	}
	var text [len("255.255.255.255")]byte
	n := len(text)
	octets := a.As4()
	for i := len(octets) - 1; i >= 0; i-- {
		for o := octets[i]; ; o /= 10 {
			n--
			text[n] = '0' + o%10
			if o < 10 {
				break
			}
		}
		if i > 0 {
			n--
			text[n] = '.'
		}
	}
	return append(dst, text[n:]...)
}

package proxy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Forwarded are the keys of what the server says of the client.
type Forwarded struct {
	Forwarded      []string `toml:"forwarded" default:"X-Forwarded-For X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Prefix Forwarded"`
	ForwardedChain bool     `toml:"forwarded_chain"`
}

// forwards is a set of the fields that tell of the client: http1.Telling, in the order of the bits.
type forwards uint8

const (
	forwardsFor forwards = 1 << iota
	forwardsProto
	forwardsHost
	forwardsPort
	forwardsPrefix
	forwardsRealIP
	forwardsForwarded
)

// readForwarded reads forwarded; the fields of the configuration are known. Where it has one of
// these, the server says nothing in it: an upstream would find two values, and take either for
// true. The error is a *handlers.KeyError.
func (m *module) readForwarded() error {
	for _, name := range m.set.Forwarded.Forwarded {
		i := slices.IndexFunc(http1.ForwardingFields[:], func(s string) bool {
			return ascii.EqualFold(s, name)
		})
		if i < 0 {
			return handlers.BadKey("forwarded", "expected some of %s, not %q",
				strings.Join(http1.ForwardingFields[:], ", "), name)
		}
		if !m.configures(name) {
			m.forwards |= 1 << i
		}
	}
	m.prefix = http1.AppendPath(nil, []byte(strings.TrimSuffix(m.Env.Prefix, "/")))
	if !m.path.cut || len(m.prefix) == 0 || around.Of(m.Env).Internal {
		m.forwards &^= forwardsPrefix // the upstream sees all of the path that clients know
	}
	m.readUsual()
	return nil
}

// appendForwarded says who the client is, as far as this server knows, in the fields that most
// applications read, and in that of RFC 7239; and by which id this server knows the request.
//
// A request runs through the code of a head once, and what that costs is to fetch it. So what the
// usual ones are told is made by appendClient when the module is built, and a short loop fills it
// in.
func (c *call) appendForwarded(out []byte) []byte {
	remote := c.Req.RemoteAddr().Addr().Unmap()
	host, id := c.Req.Layer().HostView(), c.Req.Layer().IDView()
	usual := c.m.usual[0]
	if c.Req.Secure() {
		usual = c.m.usual[1]
	}
	if !remote.Is4() || len(host) == 0 || usual == nil {
		return c.appendUnusual(out, remote, host, id)
	}
	var text [len("255.255.255.255")]byte
	parts := [...][]byte{ofAddress: http1.AppendAddr(text[:0], remote), ofHost: host, ofID: id,
		ofNothing: nil}
	for i := range usual {
		t := &usual[i]
		out = append(append(out, t.text...), parts[t.part]...)
	}
	return out
}

// forwardedPiece is a piece of the fields for usual requests: a text, and a part of the request
// behind it.
type forwardedPiece struct {
	text string
	part int
}

// The parts, and what stands for them where the pieces are made.
const (
	ofAddress = iota
	ofHost
	ofID
	ofNothing
)

const sampleBytes = "\x00\x01\x02"

// readUsual makes the pieces. There are none where all requests need a look.
func (m *module) readUsual() {
	if m.forwards&(forwardsPort|forwardsRealIP) != 0 || m.set.ForwardedChain {
		return
	}
	c := &call{callState: callState{m: m}}
	for i := range m.usual {
		text := string(c.appendClient(nil, netip.IPv4Unspecified(), []byte(sampleBytes[ofAddress:ofHost]),
			[]byte(sampleBytes[ofHost:ofID]), []byte(sampleBytes[ofID:]), i == 1, nil))
		for {
			at := strings.IndexAny(text, sampleBytes)
			if at < 0 {
				m.usual[i] = append(m.usual[i], forwardedPiece{text, ofNothing})
				break
			}
			m.usual[i] = append(m.usual[i], forwardedPiece{text[:at], int(text[at])})
			text = text[at+1:]
		}
	}
}

// appendUnusual is appendForwarded for any request.
func (c *call) appendUnusual(out []byte, remote netip.Addr, host, id []byte) []byte {
	var text [len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")]byte
	address := text[:0]
	if remote = remote.WithZone(""); remote.IsValid() {
		address = remote.AppendTo(address)
	}
	var hops []netip.Addr // from the client's proxy to the one that has asked this server
	if c.m.set.ForwardedChain && c.Req.Layer().Proxied() {
		var room [8]netip.Addr
		hops = c.Req.Layer().AppendHops(room[:0])
	}
	return c.appendClient(out, remote, address, host, id, c.Req.Secure(), hops)
}

// appendClient appends what the upstream is told of a client with that address, which also stands
// in remote.
func (c *call) appendClient(
	out []byte, remote netip.Addr, address, host, id []byte, secure bool, hops []netip.Addr,
) []byte {
	set, proto := c.m.forwards, "http"
	if secure {
		proto = "https"
	}
	if set&forwardsFor != 0 && len(address) > 0 {
		out = put(out, "X-Forwarded-For: ", address, "\r\n")
		if len(hops) > 0 {
			out = appendHops(out[:len(out)-len("\r\n")], hops)
		}
	}
	if set&forwardsProto != 0 {
		out = http1.AppendField(out, "X-Forwarded-Proto", proto)
	}
	if set&forwardsHost != 0 && len(host) > 0 {
		out = put(out, "X-Forwarded-Host: ", host, "\r\n")
	}
	if set&(forwardsPort|forwardsPrefix|forwardsRealIP) != 0 {
		out = c.appendFurther(out, address)
	}
	if set&forwardsForwarded != 0 {
		out = append(out, "Forwarded: for="...)
		if remote.Is4() {
			out = append(out, address...)
		} else {
			out = appendNode(out, remote)
		}
		out = append(append(out, ";proto="...), proto...)
		if len(host) > 0 { // quoted, for the colon of a port (RFC 7239 section 4)
			out = put(out, `;host="`, host, `"`)
		}
		for _, hop := range hops {
			out = appendNode(append(out, ", for="...), hop)
		}
		out = append(out, "\r\n"...)
	}
	if !c.m.configures(conn.RequestIDField) {
		out = put(out, conn.RequestIDField+": ", id, "\r\n")
	}
	return out
}

// appendHops appends the rest of X-Forwarded-For behind the client.
func appendHops(out []byte, hops []netip.Addr) []byte {
	for _, hop := range hops {
		if hop.IsValid() {
			out = hop.AppendTo(append(out, ", "...))
		}
	}
	return append(out, "\r\n"...)
}

// appendFurther appends the fields that are not asked for as a rule.
func (c *call) appendFurther(out, address []byte) []byte {
	set := c.m.forwards
	if set&forwardsPort != 0 {
		out = append(placeholder.AppendPort(append(out, "X-Forwarded-Port: "...), c.Req), "\r\n"...)
	}
	if set&forwardsPrefix != 0 {
		out = put(out, "X-Forwarded-Prefix: ", c.m.prefix, "\r\n")
	}
	if set&forwardsRealIP != 0 && len(address) > 0 && !c.copied("X-Real-IP") {
		out = put(out, "X-Real-IP: ", address, "\r\n")
	}
	return out
}

// copied reports whether the request has a field that the server has put there, by copy_headers of
// auth, and not the client.
func (c *call) copied(name string) bool {
	l := c.Req.Layer()
	if !l.Replaced(name) {
		return false
	}
	_, ok := l.HeaderView(name)
	return ok
}

// appendNode appends an address as RFC 7239 section 6 writes it.
func appendNode(out []byte, a netip.Addr) []byte {
	switch {
	case !a.IsValid(): // of a UNIX socket
		return append(out, "unknown"...)
	case a.Is6():
		return append(a.AppendTo(append(out, `"[`...)), `]"`...)
	}
	return a.AppendTo(out)
}

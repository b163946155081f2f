package websocket

import (
	"crypto/sha1"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// agreed is the result of a client's handshake.
type agreed struct {
	key      string
	protocol string
	deflate  bool
	// the client limits the server's window, which the answer has to confirm
	window        bool
	writeTakeover bool  // the server's messages may refer to earlier ones
	readTakeover  uint8 // the client's may refer to 2^readTakeover bytes; 0: to none
}

// accept checks a handshake (RFC 6455 section 4.2.1).
func (u *Upgrader) accept(req *conn.Request) (a agreed, err *HandshakeError) {
	h := req.Header()
	keys := h.Values("Sec-WebSocket-Key")
	switch {
	case req.Method() != http.MethodGet:
		return a, &HandshakeError{http.StatusMethodNotAllowed, "method is not GET"}
	case req.Proto() == "HTTP/1.0" || !hasToken(h.Values("Upgrade"), "websocket"):
		return a, &HandshakeError{http.StatusUpgradeRequired,
			"request does not ask for an upgrade to websocket"}
	case !hasToken(h.Values("Connection"), "upgrade"):
		return a, &HandshakeError{http.StatusBadRequest, "upgrade is not in Connection"}
	case req.ContentLength() != 0:
		return a, &HandshakeError{http.StatusBadRequest, "request has a body"}
	case !slices.Equal(h.Values("Sec-WebSocket-Version"), []string{"13"}):
		return a, &HandshakeError{http.StatusUpgradeRequired, "Sec-WebSocket-Version is not 13"}
	case len(keys) != 1 || !validKey(keys[0]):
		return a, &HandshakeError{http.StatusBadRequest,
			"Sec-WebSocket-Key is not the base64 form of 16 bytes"}
	case !u.allows(req):
		return a, &HandshakeError{http.StatusForbidden, "origin is not allowed"}
	}
	protocols, ok := parseProtocols(h.Values("Sec-WebSocket-Protocol"))
	if !ok {
		return a, &HandshakeError{http.StatusBadRequest,
			"Sec-WebSocket-Protocol is not a list of tokens"}
	}
	offers, ok := parseOffers(h.Values("Sec-WebSocket-Extensions"))
	if !ok {
		return a, &HandshakeError{http.StatusBadRequest,
			"Sec-WebSocket-Extensions is not a list of extensions"}
	}
	if i := slices.IndexFunc(u.Subprotocols,
		func(p string) bool { return slices.Contains(protocols, p) }); i >= 0 {
		a.protocol = u.Subprotocols[i]
	}
	a.key = keys[0]
	if i := slices.IndexFunc(offers, offer.acceptable); u.Compression && i >= 0 {
		o := offers[i]
		a.deflate, a.window = true, o.has(serverWindow)
		a.writeTakeover = u.Takeover && !o.has(serverNoTakeover)
		if u.PeerTakeover && !o.has(clientNoTakeover) {
			a.readTakeover = o.window(clientWindow)
		}
	}
	return a, nil
}

// answer returns the head of the answer, with the fields that the handler has set, except those of
// the handshake.
func (a *agreed) answer(h *conn.Header) []byte {
	b := make([]byte, 0, 256)
	b = append(b,
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"...)
	b = appendField(b, "Sec-WebSocket-Accept", acceptKey(a.key))
	if a.protocol != "" {
		b = appendField(b, "Sec-WebSocket-Protocol", a.protocol)
	}
	if a.deflate {
		b = appendField(b, "Sec-WebSocket-Extensions", a.extension())
	}
	for name, value := range h.All() {
		switch {
		case ascii.EqualFold(name, "Connection"), ascii.EqualFold(name, "Upgrade"),
			len(name) >= len(ours) && ascii.EqualFold(name[:len(ours)], ours):
		default:
			b = appendField(b, name, value)
		}
	}
	return append(b, "\r\n"...)
}

const ours = "Sec-WebSocket-"

func appendField(b []byte, name, value string) []byte {
	return append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
}

// extension returns what is agreed on permessage-deflate. If a client has limited the server's
// window, the answer must state the limit that the server keeps to (RFC 7692 section 7.1.2.1).
func (a *agreed) extension() string {
	e := deflate
	if a.window {
		e += "; " + serverWindow + "=" + largestWindow
	}
	if !a.writeTakeover {
		e += "; " + serverNoTakeover
	}
	if a.readTakeover == 0 {
		e += "; " + clientNoTakeover
	}
	return e
}

// acceptKey returns the value of Sec-WebSocket-Accept (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// explain adds the header fields of the refusal.
func (e *HandshakeError) explain(resp *conn.Response) {
	switch e.Status {
	case http.StatusMethodNotAllowed:
		resp.Header().Set("Allow", http.MethodGet)
	case http.StatusUpgradeRequired: // RFC 9110 section 15.5.22, RFC 6455 section 4.4
		resp.Header().Set("Upgrade", "websocket")
		resp.Header().Set("Sec-WebSocket-Version", "13")
	}
}

func hasToken(lists []string, token string) bool {
	return slices.ContainsFunc(lists, func(list string) bool { return ascii.HasToken(list, token) })
}

// validKey reports whether a key is 16 bytes in base64.
func validKey(key string) bool {
	var b [18]byte
	if len(key) != 24 { // base64 would ignore a newline in it
		return false
	}
	n, err := base64.StdEncoding.Decode(b[:], []byte(key))
	return err == nil && n == 16
}

// allows reports whether the page that connects, if any, may do so. Browsers let the page of any
// site connect to any other site, with the cookies of that one, and leave the check to the server
// (RFC 6455 section 10.2).
func (u *Upgrader) allows(req *conn.Request) bool {
	origins := req.Header().Values("Origin")
	switch {
	case len(origins) == 0:
		return true
	case len(origins) > 1:
		return false
	case u.CheckOrigin != nil:
		return u.CheckOrigin(req, origins[0])
	}
	from := parseOrigin(origins[0])
	if from.of(req.Host(), req.Secure()) {
		return true
	}
	return slices.ContainsFunc(u.Origins,
		func(o string) bool { return o == "*" || parseOrigin(o) == from })
}

// origin is the origin of a page (RFC 6454 section 4), in the form for comparisons: in small
// letters, and without the default port of the scheme.
type origin struct{ scheme, authority string }

// parseOrigin takes an Origin field or an entry of Upgrader.Origins apart. Clients that are no
// browsers, such as Starscream on iOS, make the field of the address that they connect to, so ws
// stands for http, and wss for https. A value without a scheme, such as "null", becomes the
// authority.
func parseOrigin(s string) (o origin) {
	s = ascii.ToLower(s)
	scheme, authority, ok := strings.Cut(s, "://")
	if !ok {
		return origin{authority: s}
	}
	switch o = (origin{scheme, authority}); scheme {
	case "http", "ws":
		o.scheme = "http"
	case "https", "wss":
		o.scheme = "https"
	}
	o.authority = withoutPort(o.scheme, authority)
	return o
}

// withoutPort cuts off the default port of a scheme: browsers omit it, but other clients may send
// it (RFC 9110 section 4.2.3).
func withoutPort(scheme, authority string) string {
	switch scheme {
	case "http":
		return strings.TrimSuffix(authority, ":80")
	case "https":
		return strings.TrimSuffix(authority, ":443")
	}
	return authority
}

// of reports whether the origin is the host that the client has asked for. Over TLS its scheme must
// be https: without TLS, anyone on the way could have sent the page. Without TLS both schemes pass,
// since a proxy in front may have had TLS with the client.
func (o origin) of(host string, secure bool) bool {
	if o.scheme != "https" && (o.scheme != "http" || secure) {
		return false
	}
	return host != "" && o.authority == withoutPort(o.scheme, ascii.ToLower(host))
}

// parseProtocols parses the values of Sec-WebSocket-Protocol. Empty elements are skipped here and
// in parseOffers: clients and proxies that join lists leave them behind (RFC 9110 section 5.6.1.2).
func parseProtocols(values []string) (all []string, ok bool) {
	ok = true
	for _, v := range values {
		ascii.EachElement(v, func(p string) bool {
			all = append(all, p)
			ok = http1.ValidToken(p)
			return ok
		})
		if !ok {
			return nil, false
		}
	}
	return all, true
}

const (
	deflate          = "permessage-deflate"
	serverWindow     = "server_max_window_bits"
	clientWindow     = "client_max_window_bits"
	serverNoTakeover = "server_no_context_takeover"
	clientNoTakeover = "client_no_context_takeover"
)

// offer is an extension that a client offers.
type offer struct {
	name   string
	params []param
}

type param struct{ name, value string }

// parseOffers parses the values of Sec-WebSocket-Extensions. A value that breaks the grammar fails
// the handshake (RFC 6455 section 9.1).
func parseOffers(values []string) (all []offer, ok bool) {
	for _, s := range values {
		for {
			if s = strings.TrimLeft(s, ", \t"); s == "" {
				break
			}
			o, rest, ok := parseOffer(s)
			if !ok || rest != "" && rest[0] != ',' {
				return nil, false
			}
			all, s = append(all, o), rest
		}
	}
	return all, true
}

func parseOffer(s string) (o offer, rest string, ok bool) {
	if o.name, s = cutToken(s); o.name == "" {
		return o, s, false
	}
	for strings.HasPrefix(s, ";") {
		var p param
		if p.name, s = cutToken(s[1:]); p.name == "" {
			return o, s, false
		}
		if strings.HasPrefix(s, "=") {
			s = strings.TrimLeft(s[1:], " \t")
			quoted := strings.HasPrefix(s, `"`) // a quoted value has to be a token, too
			p.value, s = cutToken(strings.TrimPrefix(s, `"`))
			if p.value == "" || quoted && !strings.HasPrefix(s, `"`) {
				return o, s, false
			}
			if quoted {
				s = strings.TrimLeft(s[1:], " \t")
			}
		}
		o.params = append(o.params, p)
	}
	return o, s, true
}

// cutToken takes a token and the space around it off the front of s.
func cutToken(s string) (token, rest string) {
	s = strings.TrimLeft(s, " \t")
	n := 0
	for n < len(s) && http1.ValidToken(s[n:n+1]) {
		n++
	}
	return s[:n], strings.TrimLeft(s[n:], " \t")
}

// acceptable reports whether the server can accept the offer: its window is that of package flate.
// A server declines parameters that it does not know (RFC 7692 section 7.1).
func (o offer) acceptable() bool {
	if o.name != deflate {
		return false
	}
	for i, p := range o.params {
		if slices.ContainsFunc(o.params[:i], func(q param) bool { return q.name == p.name }) {
			return false
		}
		switch p.name {
		case serverNoTakeover, clientNoTakeover:
			if p.value != "" {
				return false
			}
		case clientWindow: // the answer may ignore it
			if p.value != "" && !slices.Contains(windowBits, p.value) {
				return false
			}
		case serverWindow: // must be obeyed, and package flate has one window, the largest
			if p.value != largestWindow {
				return false
			}
		default:
			return false
		}
	}
	return true
}

const largestWindow = "15"

// windowBits are the sizes of windows, as powers of 2.
var windowBits = []string{"8", "9", "10", "11", "12", "13", "14", largestWindow}

// window returns the limit of a window that the offer names, as a power of 2. A client that names
// one obeys it even if the answer does not name it (RFC 7692 section 7.1.2.2).
func (o offer) window(name string) uint8 {
	for _, p := range o.params {
		if bits, err := strconv.Atoi(p.value); p.name == name && err == nil {
			return uint8(bits)
		}
	}
	return 15
}

func (o offer) has(name string) bool {
	return slices.ContainsFunc(o.params, func(p param) bool { return p.name == name })
}

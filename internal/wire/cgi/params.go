package cgi

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"unsafe"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// A Request has the values of a script's parameters. AppendTo writes these.
//
// Strings from the client are neither escaped nor changed, except as said here. A NUL in one of
// them is an error. None need be valid for longer than the call of AppendTo.
type Request struct {
	Method string
	Target string // path and query as sent on (conn.RequestLayer.OriginalTargetView), or "*"
	Query  string // as received, without the question mark
	Front  string // the front controller's own query, which comes before that one; may be empty
	Proto  string // HTTP/1.1
	Host   string // the effective authority (RFC 9110 section 7.1), which beats a Host field
	TLS    bool

	// Client is the client's certificate; nil: it was not asked for one.
	Client *Certificate

	User     string // authenticated by the server; "": none
	AuthType string // how the server has authenticated it; "": another program did

	Remote netip.AddrPort // the zero value on UNIX sockets
	Local  netip.AddrPort // the one that the client connected to

	// Proxied says that a trusted proxy is in front: the client did not choose the port of Local.
	Proxied bool

	ID     []byte // of the request; empty: none
	Length int64  // of the body that will be sent, exactly
	Fields Fields // nil: none

	Prefix string // of the route, part of the path and not of the file's name; no slash at its end
	Path   string // decoded, below the prefix; needed only for placeholders
	Script string // below the prefix and below the root: Target.Name
	Info   string // Target.Info
	Root   string // of the script's folder, as the script's machine sees it; empty: there is no script

	Server string  // ServerName, may be empty
	Params []Field // from the configuration: they replace other parameters of the same name
	Fixed  *Fixed  // of Root and Params

	// Underscores lets fields pass that have an underscore in their name.
	Underscores bool
	// Trusted are the names of fields that a Connection field does not remove: those that a proxy in
	// front sets. Otherwise a client could remove the proxy's description of it.
	Trusted []string
	// Own, if it is not nil, reports the fields that the server has replaced, which a Connection
	// field does not remove either.
	Own interface{ Replaced(name string) bool }

	// Other appends what a placeholder of a parameter stands for that is none of cgi's own (see Fix);
	// nil: nothing.
	Other func(dst []byte, name string) []byte

	// Scratch. On the stack it would make the caller's grow.
	named []string
	order []indexedField
	value []byte
}

// Reset makes r ready for another request. It keeps memory, but not its contents.
func (r *Request) Reset() {
	clear(r.named)
	named, order, value := r.named[:0], r.order[:0], r.value[:0]
	*r = Request{} // a literal with these would be copied, and make the stack grow
	r.named, r.order, r.value = named, order, value
}

// AppendTo adds the parameters to h, whose Finish returns the error, if any.
//
// Missing on purpose are: HTTPS without TLS, since programs ask whether it is there; PATH_INFO and
// PATH_TRANSLATED without path info; REMOTE_USER and AUTH_TYPE without a user that this server
// knows; and REMOTE_HOST and REMOTE_IDENT.
//
// A request runs once through this code, so its cost is to fetch the code. So each parameter is one
// call, and parameters of few requests are in functions of their own.
func (r *Request) AppendTo(h *Vars) {
	if h.format == SCGI { // CONTENT_LENGTH has to be the first one
		r.length(h)
		h.Add("SCGI", "1")
	}
	h.addAll(r.Fixed.pairs)
	r.add(h, "SERVER_PROTOCOL", r.Proto, "")
	r.add(h, "REQUEST_METHOD", r.Method, "")
	if r.Front == "" {
		r.add(h, "QUERY_STRING", r.Query, "")
	} else {
		r.frontQuery(h)
	}
	r.add(h, "REQUEST_URI", r.Target, "")
	if r.Info == "" {
		r.add(h, "DOCUMENT_URI", r.Prefix, r.Script)
	} else {
		r.documentURI(h)
	}
	r.add(h, "SCRIPT_NAME", r.Prefix, r.Script)
	switch {
	case r.Root == "":
		r.add(h, "PATH_INFO", r.Info, "") // programs check only whether it exists
	case r.Info == "":
		r.add(h, "SCRIPT_FILENAME", r.Fixed.root, r.Script)
	default:
		r.add(h, "SCRIPT_FILENAME", r.Fixed.root, r.Script)
		r.add(h, "PATH_INFO", r.Info, "")
		r.add(h, "PATH_TRANSLATED", r.Fixed.root, r.Info) // RFC 3875 section 4.1.6
	}
	r.add(h, "REQUEST_SCHEME", r.scheme(), "")
	if r.TLS {
		r.add(h, "HTTPS", "on", "")
	}
	if r.Client != nil {
		r.client(h)
	}
	if r.User != "" {
		r.add(h, "REMOTE_USER", r.User, "")
	}
	if r.AuthType != "" {
		r.add(h, "AUTH_TYPE", r.AuthType, "")
	}
	r.addresses(h)
	if h.format != SCGI {
		r.length(h)
	}
	r.fields(h)
	if len(r.ID) > 0 {
		r.add(h, "HTTP_X_REQUEST_ID", Text(r.ID), "")
	}
	if r.Fixed.others {
		r.others(h)
	}
}

// Certificate is what is known of a client's certificate. Verify is SUCCESS, NONE or FAILED: with a
// reason; the others are empty where they are not known.
type Certificate struct {
	Verify, Subject, Issuer, Serial, Fingerprint string
}

// client adds the parameters about the client's certificate, by the names of Apache's mod_ssl.
//
//go:noinline
func (r *Request) client(h *Vars) {
	r.add(h, "SSL_CLIENT_VERIFY", r.Client.Verify, "")
	for _, p := range [...][2]string{{"SSL_CLIENT_S_DN", r.Client.Subject},
		{"SSL_CLIENT_I_DN", r.Client.Issuer}, {"SSL_CLIENT_M_SERIAL", r.Client.Serial},
		{"SSL_CLIENT_FINGERPRINT", r.Client.Fingerprint}} {
		if p[1] != "" {
			r.add(h, p[0], p[1], "")
		}
	}
}

// frontQuery adds the query of the front controller and the request's.
//
//go:noinline
func (r *Request) frontQuery(h *Vars) {
	r.value = append(r.value[:0], r.Front...)
	if r.Query != "" {
		r.value = append(append(r.value, '&'), r.Query...)
	}
	r.add(h, "QUERY_STRING", Text(r.value), "")
}

// documentURI adds the path of a request that has path info.
//
//go:noinline
func (r *Request) documentURI(h *Vars) {
	r.value = append(append(r.value[:0], r.Script...), r.Info...)
	r.add(h, "DOCUMENT_URI", r.Prefix, Text(r.value))
}

// others adds what Fixed has besides pairs.
//
//go:noinline
func (r *Request) others(h *Vars) {
	for _, p := range r.Fixed.rest {
		h.Add(p.Name, p.Value)
	}
	for _, p := range r.Fixed.varying {
		r.value = r.expand(r.value[:0], p.value)
		h.Add(p.name, Text(r.value))
	}
}

// Text returns b as a string without a copy, for callers that do not keep it.
func Text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func (r *Request) scheme() string {
	if r.TLS {
		return "https"
	}
	return "http"
}

// Fixed are the parameters that are the same for all requests of a route, encoded once.
type Fixed struct {
	root    string  // without a slash at its end
	pairs   []byte  // of MaxVars bytes at most
	others  bool    // one of the following is set
	rest    []Field // those without room in pairs, and invalid ones
	varying []varying
}

// varying is a parameter with placeholders.
type varying struct {
	name  string
	value template.Text
}

// Varies reports whether parameters have placeholders.
func (x *Fixed) Varies() bool { return len(x.varying) > 0 }

// Fix makes the Fixed, for Vars of that format, of these values of a Request, and of the name of
// this server. Values have the placeholders of Own, and those that others names, for Request.Other.
func Fix(format Format, root, software string, params []Field, others ...string) *Fixed {
	known := slices.Concat(Own, others)
	all := []Field{{"GATEWAY_INTERFACE", "CGI/1.1"}, {"SERVER_SOFTWARE", software}}
	if root != "" {
		if root = strings.TrimRight(root, "/"); root == "" {
			root = "/"
		}
		all = append(all, Field{"DOCUMENT_ROOT", root},
			// A php-cgi that was compiled to run only behind a redirect does not run without it.
			Field{"REDIRECT_STATUS", "200"})
	}
	all = slices.DeleteFunc(all, func(f Field) bool { return has(params, f.Name) })
	x := &Fixed{root: strings.TrimRight(root, "/")}
	for _, f := range append(all, params...) {
		if value, err := template.Parse(f.Value, known); err == nil && !value.Literal() {
			x.varying = append(x.varying, varying{f.Name, value})
		} else if f.Name == "" || strings.Contains(f.Name+f.Value, "\x00") ||
			len(x.pairs)+pairLen(format, len(f.Name), len(f.Value)) > MaxVars {
			x.rest = append(x.rest, f)
		} else {
			x.pairs = appendPair(x.pairs, format, f.Name, f.Value)
		}
	}
	x.others = len(x.rest)+len(x.varying) > 0
	return x
}

// add adds a parameter, unless the configuration has one of that name. The value may come in two
// pieces. One with a NUL is refused, see Vars.Add.
//
//go:noinline
func (r *Request) add(h *Vars, name, a, b string) {
	if len(r.Params) > 0 && has(r.Params, name) {
		return
	}
	p := h.Value(append(h.Open(len(name), len(a)+len(b)), name...))
	from := len(p)
	p = append(p, a...)
	if b != "" {
		p = append(p, b...)
	}
	if bytes.IndexByte(p[from:], 0) >= 0 {
		h.Fail(ErrPairNUL)
	}
	h.Close(p)
}

// has reports whether a field has that name.
func has(fields []Field, name string) bool {
	for i := range fields {
		if fields[i].Name == name {
			return true
		}
	}
	return false
}

// addresses adds the two ends of the connection and the server's name.
//
// On a UNIX socket there are no addresses. The client is called "unix:", which no program takes for
// an address. The loopback address would be wrong, as programs trust it. The port is then that of
// the Host field, as it is behind a trusted proxy.
func (r *Request) addresses(h *Vars) {
	if r.Remote.IsValid() {
		r.address(h, "REMOTE_ADDR", r.Remote.Addr())
		r.number(h, "REMOTE_PORT", uint64(r.Remote.Port()))
	} else {
		r.add(h, "REMOTE_ADDR", unixAddr, "")
	}
	local := r.Local.IsValid()
	if local {
		r.address(h, "SERVER_ADDR", r.Local.Addr())
	}
	if local && !r.Proxied {
		r.number(h, "SERVER_PORT", uint64(r.Local.Port()))
	} else {
		r.port(h)
	}
	if r.Server != "" {
		r.add(h, "SERVER_NAME", r.Server, "")
	} else {
		r.name(h)
	}
}

// unixAddr replaces the address of a client without one.
const unixAddr = "unix:"

// address adds an address.
//
//go:noinline
func (r *Request) address(h *Vars, name string, a netip.Addr) {
	var tmp [maxAddr]byte
	r.add(h, name, Text(appendAddr(tmp[:0], a)), "")
}

// maxAddr is the length of the longest address.
const maxAddr = len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")

// appendAddr appends an address without its zone.
func appendAddr(b []byte, a netip.Addr) []byte {
	if !a.Is4() {
		a = a.Unmap().WithZone("")
	}
	return http1.AppendAddr(b, a)
}

// number adds a number.
//
//go:noinline
func (r *Request) number(h *Vars, name string, n uint64) {
	var tmp [20]byte
	i := len(tmp) - 1
	for ; n > 9; n /= 10 {
		tmp[i] = byte('0' + n%10)
		i--
	}
	tmp[i] = byte('0' + n)
	r.add(h, name, Text(tmp[i:]), "")
}

// port adds the port that a client asks for, which is not that of Local.
//
//go:noinline
func (r *Request) port(h *Vars) {
	_, port := http1.SplitPort(r.Host)
	switch {
	case port != "":
	case r.TLS:
		port = "443"
	default:
		port = "80"
	}
	r.add(h, "SERVER_PORT", port, "")
}

// name adds the name of a server that has none.
//
//go:noinline
func (r *Request) name(h *Vars) {
	name, _ := http1.SplitPort(r.Host)
	local := r.Local.Addr()
	switch {
	case name != "":
		r.add(h, "SERVER_NAME", name, "")
	case local.Is6() && !local.Is4In6(): // in brackets, as in a URL: RFC 3875 section 4.1.14
		r.value = append(appendAddr(append(r.value[:0], '['), local), ']')
		r.add(h, "SERVER_NAME", Text(r.value), "")
	case local.IsValid():
		r.address(h, "SERVER_NAME", local)
	default:
		r.add(h, "SERVER_NAME", "localhost", "")
	}
}

// appendRemote appends the client's address.
func (r *Request) appendRemote(b []byte) []byte {
	if r.Remote.IsValid() {
		return appendAddr(b, r.Remote.Addr())
	}
	return append(b, unixAddr...)
}

// length adds the length of the body. It always exists, and is always right: with a larger one
// PHP-FPM would wait for the rest for ever, whatever the protocol says, and without one it sees no
// body.
func (r *Request) length(h *Vars) {
	if r.Length < 0 {
		h.Fail(ErrLength)
		return
	}
	r.number(h, "CONTENT_LENGTH", uint64(r.Length))
}

package cgi

import (
	"bytes"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/template"
)

// A Request is what a script is told of a request. AppendTo writes it as parameters.
//
// Strings from the client are neither escaped nor changed, except as said here. A NUL in one of
// them is an error.
type Request struct {
	Method string
	Target string // as received, in whatever form
	Query  string // as received, without the question mark
	Front  string // the front controller's own query, which comes before that one; may be empty
	Proto  string // HTTP/1.1
	Host   string // the effective authority (RFC 9110 section 7.1), which beats a Host field
	TLS    bool

	User     string // that the server knows; "": none
	AuthType string // how the server has found it out; "": another program did

	Remote netip.AddrPort // the zero value on UNIX sockets
	Local  netip.AddrPort // the one that the client connected to

	// Proxied says that a trusted proxy is in front: the client did not choose the port of Local.
	Proxied bool

	ID     []byte // of the request; empty: none
	Length int64  // of the body that will be sent, exactly
	Fields []Field

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
	// Trusted are the names of fields that a Connection field does not remove: those that a proxy
	// in front sets. Otherwise a client could remove what the proxy says of it.
	Trusted []string
	// Own, if it is not nil, reports the fields that the server has replaced, which a Connection
	// field does not remove either.
	Own interface{ Replaced(name string) bool }

	// Scratch. On the stack it would make the caller's grow.
	named [maxOptions]string
	order []place
	value []byte
}

// Reset makes r ready for another request. It keeps memory, but not its contents.
func (r *Request) Reset() {
	clear(r.Fields)
	fields, order, value := r.Fields[:0], r.order[:0], r.value[:0]
	*r = Request{} // a literal with these would be copied, and make the stack grow
	r.Fields, r.order, r.value = fields, order, value
}

// AppendTo adds the parameters to h, whose Finish returns the error, if any.
//
// Missing on purpose are: HTTPS without TLS, since programs ask whether it is there; PATH_INFO and
// PATH_TRANSLATED without path info; REMOTE_USER and AUTH_TYPE without a user that this server
// knows; and REMOTE_HOST and REMOTE_IDENT.
func (r *Request) AppendTo(h *Vars) {
	if h.format == SCGI { // CONTENT_LENGTH is the first one
		r.length(h)
		h.Add("SCGI", "1")
	}
	h.addAll(r.Fixed.pairs)
	root := strings.TrimRight(r.Root, "/")
	r.add(h, "SERVER_PROTOCOL", r.Proto)
	r.add(h, "REQUEST_METHOD", r.Method)
	and := ""
	if r.Front != "" && r.Query != "" {
		and = "&"
	}
	r.join(h, "QUERY_STRING", r.Front, and, r.Query)
	r.requestURI(h)
	r.join(h, "DOCUMENT_URI", r.Prefix, r.Script, r.Info)
	r.join(h, "SCRIPT_NAME", r.Prefix, r.Script, "")
	if r.Root == "" {
		r.add(h, "PATH_INFO", r.Info) // programs ask for it, whether it is empty or not
	} else {
		r.join(h, "SCRIPT_FILENAME", root, r.Script, "")
		if r.Info != "" {
			r.add(h, "PATH_INFO", r.Info)
			r.join(h, "PATH_TRANSLATED", root, r.Info, "") // RFC 3875 section 4.1.6
		}
	}
	r.add(h, "REQUEST_SCHEME", r.scheme())
	if r.TLS {
		r.add(h, "HTTPS", "on")
	}
	if r.User != "" {
		r.add(h, "REMOTE_USER", r.User)
	}
	if r.AuthType != "" {
		r.add(h, "AUTH_TYPE", r.AuthType)
	}
	r.addresses(h)
	r.body(h)
	r.fields(h)
	if len(r.ID) > 0 {
		r.addBytes(h, "HTTP_X_REQUEST_ID", r.ID)
	}
	for _, p := range r.Fixed.rest {
		h.Add(p.Name, p.Value)
	}
	for _, p := range r.Fixed.varying {
		r.value = r.expand(r.value[:0], p.value)
		if bytes.IndexByte(r.value, 0) >= 0 {
			h.Fail(ErrPairNUL)
		}
		b := append(h.Open(len(p.name), len(r.value)), p.name...)
		h.Close(append(h.Value(b), r.value...))
	}
}

func (r *Request) scheme() string {
	if r.TLS {
		return "https"
	}
	return "http"
}

// Fixed are the parameters that are the same for all requests of a route, encoded once.
type Fixed struct {
	pairs   []byte  // of MaxVars bytes at most
	rest    []Field // those that have no room there, and those at fault
	varying []varying
}

// varying is a parameter with placeholders.
type varying struct {
	name  string
	value template.Text
}

// Varies reports whether some have placeholders.
func (x *Fixed) Varies() bool { return len(x.varying) > 0 }

// Fix makes the Fixed, for Vars of that format, of these values of a Request, and of the name of this
// server. A value that CheckParam refuses stands for itself.
func Fix(format Format, root, software string, params []Field) *Fixed {
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
	x := new(Fixed)
	for _, f := range append(all, params...) {
		if value, err := template.Parse(f.Value, ofParams); err == nil && !value.Literal() {
			x.varying = append(x.varying, varying{f.Name, value})
		} else if f.Name == "" || strings.Contains(f.Name+f.Value, "\x00") ||
			len(x.pairs)+pairLen(format, len(f.Name), len(f.Value)) > MaxVars {
			x.rest = append(x.rest, f)
		} else {
			x.pairs = appendPair(x.pairs, format, f.Name, f.Value)
		}
	}
	return x
}

// add adds a parameter, unless the configuration has one of that name.
func (r *Request) add(h *Vars, name, value string) {
	if !r.configured(name) {
		r.check(h, value)
		b := append(h.Open(len(name), len(value)), name...)
		h.Close(append(h.Value(b), value...))
	}
}

// join is add for a value that comes in pieces.
func (r *Request) join(h *Vars, name, a, b, c string) {
	if !r.configured(name) {
		r.check(h, a)
		r.check(h, b)
		r.check(h, c)
		p := append(h.Open(len(name), len(a)+len(b)+len(c)), name...)
		h.Close(append(append(append(h.Value(p), a...), b...), c...))
	}
}

// check refuses a value with a NUL.
func (r *Request) check(h *Vars, value string) {
	if value != "" && strings.IndexByte(value, 0) >= 0 {
		h.Fail(ErrPairNUL)
	}
}

// addBytes is add for a value of bytes, which has no NUL.
func (r *Request) addBytes(h *Vars, name string, value []byte) {
	if !r.configured(name) {
		b := append(h.Open(len(name), len(value)), name...)
		h.Close(append(h.Value(b), value...))
	}
}

func (r *Request) configured(name string) bool { return has(r.Params, name) }

// has reports whether there is a field of that name.
func has(fields []Field, name string) bool {
	for i := range fields {
		if fields[i].Name == name {
			return true
		}
	}
	return false
}

// requestURI adds the target as it came, since programs route by it and want to see every %2F.
// Every server has to accept a target in absolute form (RFC 9112 section 3.2.2). Of that only the
// path is added, which programs expect here; HTTP_HOST has the authority.
func (r *Request) requestURI(h *Vars) {
	path, query := r.uri()
	r.join(h, "REQUEST_URI", path, query, "")
}

// uri returns REQUEST_URI. The target's query is a part of path if there is a path before it.
func (r *Request) uri() (path, query string) {
	target := r.Target
	if target != "" && target[0] != '/' {
		if i := strings.Index(target, "://"); i >= 0 {
			target = target[i+3:]
			i = strings.IndexAny(target, "/?")
			switch {
			case i < 0:
				return "/", ""
			case target[i] == '?':
				return "/", target[i:]
			}
			return target[i:], ""
		}
	}
	return target, ""
}

// addresses adds the two ends of the connection and the server's name.
//
// On a UNIX socket there are no addresses. The client is called "unix:", which no program takes for
// an address. The loopback address would be wrong, as programs trust it. The port is then that of
// the Host field, as it is behind a trusted proxy.
func (r *Request) addresses(h *Vars) {
	var tmp [64]byte
	r.addBytes(h, "REMOTE_ADDR", r.appendRemote(tmp[:0]))
	if r.Remote.Addr().IsValid() {
		r.addBytes(h, "REMOTE_PORT", strconv.AppendUint(tmp[:0], uint64(r.Remote.Port()), 10))
	}
	name, port := http1.SplitPort(r.Host)
	local := r.Local.Addr().Unmap().WithZone("")
	if local.IsValid() {
		r.addBytes(h, "SERVER_ADDR", http1.AppendAddr(tmp[:0], local))
	}
	if local.IsValid() && !r.Proxied {
		r.addBytes(h, "SERVER_PORT", strconv.AppendUint(tmp[:0], uint64(r.Local.Port()), 10))
	} else {
		switch {
		case port != "":
		case r.TLS:
			port = "443"
		default:
			port = "80"
		}
		r.add(h, "SERVER_PORT", port)
	}
	switch {
	case r.Server != "":
		r.add(h, "SERVER_NAME", r.Server)
	case name != "":
		r.add(h, "SERVER_NAME", name)
	case local.Is6(): // in brackets, as in a URL: RFC 3875 section 4.1.14
		r.addBytes(h, "SERVER_NAME", append(http1.AppendAddr(append(tmp[:0], '['), local), ']'))
	case local.IsValid():
		r.addBytes(h, "SERVER_NAME", http1.AppendAddr(tmp[:0], local))
	default:
		r.add(h, "SERVER_NAME", "localhost")
	}
}

// appendRemote appends the client's address.
func (r *Request) appendRemote(b []byte) []byte {
	if remote := r.Remote.Addr(); remote.IsValid() {
		return http1.AppendAddr(b, remote.Unmap().WithZone(""))
	}
	return append(b, "unix:"...)
}

// body adds what is known of the body.
func (r *Request) body(h *Vars) {
	if h.format != SCGI {
		r.length(h)
	}
	for i := range r.Fields {
		if ascii.EqualFold(r.Fields[i].Name, "content-type") {
			r.add(h, "CONTENT_TYPE", r.Fields[i].Value)
			// a program must not see another type than the one that was checked in front of it
			return
		}
	}
}

// length adds the length of the body. It is always there, and always right: with one that is too large
// PHP-FPM waits for the rest for ever, whatever the protocol says, and without one it sees no body.
func (r *Request) length(h *Vars) {
	if r.Length < 0 {
		h.Fail(ErrLength)
		return
	}
	var tmp [20]byte
	r.addBytes(h, "CONTENT_LENGTH", strconv.AppendInt(tmp[:0], r.Length, 10))
}

package proxy

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// claims reports the fields in which a proxy in front says who the client is. Those of the client
// itself say what it likes, so they are replaced. To an application that reads fields as CGI does,
// X_Forwarded_For is X-Forwarded-For.
func claims(name string) bool {
	const prefix = "X-Forwarded-"
	switch len(name) {
	case len("Forwarded"): // and X-Real-IP
		return ascii.EqualFold(name, "Forwarded") || http1.SameVariable(name, "X-Real-IP")
	}
	return len(name) > len(prefix) && http1.SameVariable(name[:len(prefix)], prefix)
}

// options are the names in the Connection fields of a head.
type options struct {
	names   []string
	upgrade bool
}

// read reads those of a request.
func (o *options) read(r conn.RequestLayer) {
	const name = "Connection"
	for value, next := r.HeaderViewFrom(name, 0); next >= 0; value, next = r.HeaderViewFrom(name,
		next) {
		addOptions(o, value)
	}
}

// addOptions adds the names in one Connection field.
func addOptions[T string | []byte](o *options, value T) {
	ascii.EachElement(value, func(option T) bool {
		switch {
		case ascii.EqualFold(option, "close"), ascii.EqualFold(option, "keep-alive"):
		case ascii.EqualFold(option, "upgrade"):
			o.upgrade = true
		default:
			o.names = append(o.names, string(option))
		}
		return true
	})
}

// has reports whether a Connection field names that field.
func (o *options) has(name string) bool {
	for _, n := range o.names {
		if ascii.EqualFold(n, name) {
			return true
		}
	}
	return false
}

// protocols returns the protocols to which a request wants to upgrade its connection, "" for none.
// An upgrade to h2c is not passed on (RFC 9113 has removed it): behind it the client could send
// requests that no rule of this server sees. HTTP/1.0 has no upgrades (RFC 9110 section 7.8).
func protocols(req *conn.Request, o *options) string {
	if !o.upgrade || req.Proto() == "HTTP/1.0" || req.ContentLength() != 0 {
		return ""
	}
	list := req.Header().Get("Upgrade")
	if ascii.HasToken(list, "h2c") {
		return ""
	}
	return list
}

// passes reports whether a field of the request goes on to the upstream as it is, in the head or in
// the trailer, which an upstream may merge with the head.
func (c *call) passes(name string) bool {
	switch {
	case http1.HopByHop(name), http1.Framing(name), http1.Owned(name):
		return false
	case http1.SameVariable(name, conn.RequestIDField):
		return false // the id is the one in this server's logs; see appendHead
	case http1.SameVariable(name, "Proxy"):
		return false // as HTTP_PROXY it would choose the application's own proxy
	case c.Req.Layer().Replaced(name):
		// It says what the server has found out, and not what the client says; nor is it the
		// client's to remove, by a Connection field that names it.
	case c.options.has(name), claims(name):
		return false
	case !c.m.set.Underscores && strings.IndexByte(name, '_') >= 0:
		return false
	}
	return !c.m.configures(name)
}

// needsCheck reports whether more has to be known of a field of the request than its name's length
// and first letter. Others go on as they are.
func (c *call) needsCheck(name []byte) bool {
	return http1.MayHave(c.m.fromClient, name) || name[0]|0x20 == 'x' || len(c.options.names) > 0 ||
		bytes.IndexByte(name, '_') >= 0
}

// appendHead appends the head of the request for the upstream.
func (c *call) appendHead(out []byte) []byte {
	req, set := c.Req, &c.m.set
	out = append(append(out, req.Method()...), ' ')
	out = appendTarget(out, req, &c.m.path)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(c.appendHost(out), "\r\n"...)

	var s seenFields
	for fields, i := req.Layer().FieldViews(), 0; i < fields.Len(); i++ {
		if name, value, line := fields.At(i); line != nil && !c.needsCheck(name) {
			out = append(out, line...)
		} else {
			out = c.appendField(out, name, value, &s)
		}
	}
	out = c.appendForwarded(out)
	if len(c.m.fields)+len(c.m.added) > 0 {
		out = c.appendFields(c.appendFields(out, c.m.fields), c.m.added)
	}
	if proto := req.Proto(); s.via == "" && proto == "HTTP/1.1" { // mostly
		out = append(out, "Via: 1.1 lwango\r\n"...)
	} else {
		out = appendVia(out, s.via, proto)
	}
	if c.Length != 0 || c.protocols != "" || s.trailers || set.MaxIdle == 0 ||
		expectsBody(req.Method()) {
		out = c.appendFraming(out, s.trailers)
	}
	return append(out, "\r\n"...)
}

// put appends a piece of a head with what stands around it. It is a function of its own, and so are
// those for what few requests have, because a request runs once through the code of a head: what
// that costs is to fetch it.
//
//go:noinline
func put(out []byte, before string, piece []byte, behind string) []byte {
	out = append(out, before...)
	out = append(out, piece...)
	return append(out, behind...)
}

// seenFields is what a request's fields say that is put in another way.
type seenFields struct {
	via      string
	trailers bool // TE
}

// appendField appends a field that needs a look, if it goes on.
func (c *call) appendField(out, name, value []byte, s *seenFields) []byte {
	switch {
	case len(name) == len("Host") && ascii.EqualFold(name, "Host"):
		// the head has it, and most have one
		return out
	case len(name) == len("Via") && ascii.EqualFold(name, "Via"):
		if s.via != "" {
			s.via += ", "
		}
		s.via += string(value)
		return out
	case len(name) == len("TE") && ascii.EqualFold(name, "TE"):
		s.trailers = s.trailers || ascii.HasToken(value, "trailers")
		return out
	case len(name) == len("Trailer") && ascii.EqualFold(name, "Trailer"):
		if c.chunked() && !c.options.has(string(name)) { // otherwise there will be none
			out = appendView(out, name, value)
		}
		return out
	case len(name) == len("Authorization") && ascii.EqualFold(name, "Authorization"):
		if http1.ForConnection(value) {
			if c.x.Mux() { // others' requests are on the same connection
				return out
			}
			c.x.Bound = true
		}
	}
	if c.passes(string(name)) {
		if c.m.mapBack != nil && ascii.EqualFold(string(name), destinationField) {
			if to, ok := c.m.mapBack.destination(c, string(value), string(c.appendHost(nil))); ok {
				return http1.AppendField(out, string(name), to)
			}
			return out
		}
		out = appendView(out, name, value)
	}
	return out
}

// appendVia appends the Via of the client and this server's part.
func appendVia(out []byte, via, proto string) []byte {
	out = append(out, "Via: "...)
	if via != "" {
		out = append(append(out, via...), ", "...)
	}
	return append(append(out, strings.TrimPrefix(proto, "HTTP/")...), " lwango\r\n"...)
}

// appendFraming appends what is said of the body and of the connection.
func (c *call) appendFraming(out []byte, trailers bool) []byte {
	set := &c.m.set
	switch {
	case c.chunked():
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case c.Length > 0 || expectsBody(c.Req.Method()):
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, c.Length, 10), "\r\n"...)
	}
	if c.expects {
		out = append(out, "Expect: 100-continue\r\n"...)
	}
	switch {
	case c.protocols != "":
		out = http1.AppendField(out, "Upgrade", c.protocols)
		out = append(out, "Connection: Upgrade\r\n"...)
	case trailers && set.MaxIdle == 0:
		out = append(out, "TE: trailers\r\nConnection: TE, close\r\n"...)
	case trailers:
		out = append(out, "TE: trailers\r\nConnection: TE\r\n"...)
	case set.MaxIdle == 0:
		out = append(out, "Connection: close\r\n"...)
	}
	return out
}

// appendView is http1.AppendField.
func appendView(out, name, value []byte) []byte {
	return append(append(append(append(out, name...), ": "...), value...), "\r\n"...)
}

// expectsBody reports the methods for which a length of 0 is worth saying (RFC 9110 section 8.6).
func expectsBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// appendHost appends what the Host field says.
func (c *call) appendHost(out []byte) []byte {
	switch c.m.set.Host {
	case "client":
		if host := c.Req.Layer().HostView(); len(host) > 0 {
			return append(out, host...)
		}
	case "upstream":
	default:
		return append(out, c.m.set.Host...)
	}
	return append(out, c.m.hosts[c.Up.Name()]...)
}

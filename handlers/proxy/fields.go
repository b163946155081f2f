package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/internal/template"
)

// field is one of request_headers. An empty value removes the field.
type field struct {
	name  string
	value template.Text
	bound bool // credentials that are good for all of a connection
}

// placeholders can stand in a value of request_headers.
var placeholders = []string{"path", "rest", "uri", "query", "host", "scheme", "address", "id"}

// readFields reads request_headers. The error is a *handlers.KeyError.
func (m *module) readFields() error {
	const key = "request_headers"
	for _, name := range slices.Sorted(maps.Keys(m.set.RequestHeaders)) {
		text := m.set.RequestHeaders[name]
		value, err := template.Parse(text, placeholders)
		if variable := template.Variable(text); err == nil && variable != "" {
			err = fmt.Errorf("%q: unknown placeholder %s (known: %s)", text, variable,
				template.List(placeholders))
		}
		switch {
		case !http1.ValidToken(name):
			return handlers.BadKey(key, "%q is not the name of a header field", name)
		case !http1.ValidFieldValue(text):
			return handlers.BadKey(key,
				"%s: control characters cannot be part of a header field", name)
		case http1.HopByHop(name) || http1.Framing(name) || owned(name):
			return handlers.BadKey(key, "%s is set by the server itself", name)
		case m.configures(name):
			return handlers.BadKey(key, "%s is given twice", name)
		case err != nil:
			return handlers.BadKey(key, "%s: %w", name, err)
		}
		m.fields = append(m.fields, field{name, value,
			ascii.EqualFold(name, "Authorization") && http1.ForConnection(text)})
	}
	return nil
}

// configures reports whether request_headers has a field of that name, or one that CGI and its kin
// cannot tell from it.
func (m *module) configures(name string) bool {
	for i := range m.fields {
		if http1.SameVariable(m.fields[i].name, name) {
			return true
		}
	}
	return false
}

// appendFields appends the fields of request_headers. A path is encoded as in a target, since a
// decoded one may have any octets.
func (c *call) appendFields(out []byte) []byte {
	req := c.Req
	for i := range c.m.fields {
		f := &c.m.fields[i]
		if f.value.Literal() && f.value[0].Text == "" {
			continue // the field is only removed
		}
		c.x.Bound = c.x.Bound || f.bound
		out = append(append(out, f.name...), ": "...)
		for _, p := range f.value {
			switch p.Name {
			case "":
				out = append(out, p.Text...)
			case "path":
				out = http1.AppendPath(out, below(req))
			case "rest":
				out = http1.AppendPath(out, below(req)[1:])
			case "uri":
				out = appendTarget(out, req, new(pathChange))
			case "query":
				out = append(out, query(req)...)
			case "host":
				name, _ := http1.SplitPort(req.Host())
				out = append(out, name...)
			case "scheme":
				out = append(out, scheme(req)...)
			case "address":
				out = appendAddress(out, req)
			case "id":
				out = append(out, req.Layer().IDView()...)
			}
		}
		out = append(out, "\r\n"...)
	}
	return out
}

// below returns what follows the route's prefix, with a slash in front.
func below(req *conn.Request) []byte {
	path := req.Layer().PathView()[len(strings.TrimSuffix(req.Prefix(), "/")):]
	if len(path) == 0 {
		return []byte("/")
	}
	return path
}

// query returns the query with its question mark, "" if there is none.
func query(req *conn.Request) string {
	if q := req.RawQuery(); q != "" {
		return "?" + q
	}
	return ""
}

func scheme(req *conn.Request) string {
	if req.Secure() {
		return "https"
	}
	return "http"
}

// appendAddress appends the client's address, "unix:" if it has none.
func appendAddress(out []byte, req *conn.Request) []byte {
	if a := req.RemoteAddr().Addr(); a.IsValid() {
		return a.Unmap().WithZone("").AppendTo(out)
	}
	return append(out, "unix:"...)
}

package proxy

import (
	"maps"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
)

// field is one of request_headers or add_request_headers. One of the first with an empty value
// removes the field.
type field struct {
	name  string
	value placeholder.Text
	bound bool // credentials that are good for all of a connection
}

// readFields reads request_headers and add_request_headers. The error is a *handlers.KeyError.
func (m *module) readFields() error {
	key := "request_headers"
	for _, name := range slices.Sorted(maps.Keys(m.set.RequestHeaders)) {
		if m.configures(name) {
			return handlers.BadKey(key, "%s is given twice", name)
		}
		f, err := m.readField(key, name, m.set.RequestHeaders[name])
		if err != nil {
			return err
		}
		m.fields = append(m.fields, f)
	}
	key = "add_request_headers"
	for _, name := range slices.Sorted(maps.Keys(m.set.AddRequestHeaders)) {
		if claims(name) || http1.SameVariable(name, conn.RequestIDField) {
			return handlers.BadKey(key,
				"%s has one value; request_headers puts another one in its place", name)
		}
		for _, text := range m.set.AddRequestHeaders[name] {
			f, err := m.readField(key, name, text)
			if err != nil {
				return err
			}
			for _, part := range f.value.Reads() {
				if proves(part) {
					return handlers.BadKey(key, "%s: a client's own field of that name would come"+
						" before {%s}; request_headers puts it in its place", name, part)
				}
			}
			m.added = append(m.added, f)
		}
	}
	return nil
}

// proves reports whether a placeholder says who the client has proved to be.
func proves(name string) bool { return name == "user" || strings.HasPrefix(name, "cert_") }

func (m *module) readField(key, name, text string) (field, error) {
	value, err := around.Of(m.Env).Maps.Parse(text)
	switch {
	case !http1.ValidToken(name):
		err = handlers.BadKey(key, "%q is not the name of a header field", name)
	case !http1.ValidFieldValue(text):
		err = handlers.BadKey(key, "%s: control characters cannot be part of a header field", name)
	case http1.HopByHop(name) || http1.Framing(name) || http1.Owned(name):
		err = handlers.BadKey(key, "%s is set by the server itself", name)
	case err != nil:
		err = handlers.BadKey(key, "%s: %w", name, err)
	}
	return field{name, value, ascii.EqualFold(name, "Authorization") && http1.ForConnection(text)}, err
}

// readNames notes which fields need a closer look; those of the configuration are known.
func (m *module) readNames() {
	m.fromClient = http1.Steering |
		http1.NamesOf("Authorization", "Proxy", "Forwarded") // and all that begin with X
	for i := range m.fields {
		// A name of the client that has a "_" is always looked at.
		m.fromClient |= http1.NamesOf(strings.ReplaceAll(m.fields[i].name, "_", "-"))
	}
	if m.mapBack != nil {
		m.fromClient |= http1.NamesOf(destinationField)
	}
	m.fromUpstream = http1.Steering | http1.NamesOf(m.set.HideHeader...)
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

// appendFields appends fields of the configuration. Those without a value are left out.
func (c *call) appendFields(out []byte, fields []field) []byte {
	for i := range fields {
		f, from := &fields[i], len(out)
		out = append(append(out, f.name...), ": "...)
		begin := len(out)
		if out = placeholder.Append(out, c.Req, f.value); len(out) == begin {
			out = out[:from]
			continue
		}
		c.x.Bound = c.x.Bound || f.bound
		out = append(out, "\r\n"...)
	}
	return out
}

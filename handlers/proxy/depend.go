package proxy

import (
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/wire/http1"
)

// depend tells a cache in front of the route what its answers depend on.
func (m *module) depend() {
	var sent placeholder.Text
	for _, f := range m.fields {
		sent = append(sent, f.value...)
	}
	for _, f := range m.added {
		sent = append(sent, f.value...)
	}
	m.Depend("request_headers", sent, m.source)
}

// source says what becomes of a field of that name on its way to the upstream.
func (m *module) source(name string) handlers.FieldSource {
	for i := range m.fields {
		if f := &m.fields[i]; http1.SameVariable(f.name, name) {
			return reverseproxy.Source(f.value.Reads())
		}
	}
	for i := range m.added { // behind the client's
		if f := &m.added[i]; ascii.EqualFold(f.name, name) &&
			reverseproxy.Source(f.value.Reads()) > handlers.FromRoute {
			return handlers.FromServer
		}
	}
	for i, field := range http1.ForwardingFields {
		if m.forwards&(1<<i) != 0 && http1.SameVariable(field, name) {
			switch forwards(1 << i) {
			case forwardsProto, forwardsHost, forwardsPort, forwardsPrefix:
				return handlers.FromURL
			}
			return handlers.FromServer
		}
	}
	switch {
	case ascii.EqualFold(name, "Host"):
		return handlers.FromURL
	case http1.SameVariable(name, conn.RequestIDField), http1.HopByHop(name), http1.Owned(name):
		return handlers.FromServer
	}
	return handlers.FromClient
}

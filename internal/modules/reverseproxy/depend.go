package reverseproxy

import (
	"slices"
	"strconv"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/modules/placeholder"
)

// ofURL are the placeholders that are the same for all requests for one URL. The method is: only
// answers to GET are kept.
var ofURL = []string{"path", "rest", "prefix", "uri", "query", "host", "port", "scheme", "method"}

// Source returns from where a text with these placeholders has its value.
func Source(names []string) handlers.FieldSource {
	switch {
	case len(names) == 0:
		return handlers.FromRoute
	case !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(ofURL, name) }):
		return handlers.FromURL
	}
	return handlers.FromServer
}

// Depend tells a cache in front of the route what its answers depend on. sent are the pieces of
// what requests are sent with, on top of what the module sends always; key names the setting.
// sets is Dependence.Sets. It is called once the route is open.
//
// All applications are told the client's address and the id of the request, so these fields are not
// part of it: an application that answers by them has to say so, by Vary or private. But where the
// configuration puts the address elsewhere, as an application may trust it there, it counts. An id
// chooses nothing.
//
// Upstreams that take turns give the same answers. Those among which the client chooses, by a
// cookie or a field, may not.
func (r *Route) Depend(key string, sent placeholder.Text,
	sets func(name string) handlers.FieldSource) {
	d := handlers.Dependence{Sets: sets}
	var parts []func(dst []byte, req *conn.Request) []byte
	add := func(words string, part func(dst []byte, req *conn.Request) []byte) {
		d.Words, parts = append(d.Words, words), append(parts, part)
	}
	if r.split != nil {
		add("the entry of split", func(dst []byte, req *conn.Request) []byte {
			_, name := r.split.choose(req)
			return append(dst, name...)
		})
	}
	if r.name != nil {
		add("tls.name", r.appendName)
	}
	if r.cookies != nil {
		d.Cookie = r.cookies.Name
		add("the upstream of sticky", func(dst []byte, req *conn.Request) []byte {
			id, _ := r.cookies.read(req)
			return strconv.AppendUint(dst, id, 16)
		})
	}
	if r.key != nil && r.key.clientChosen() {
		add("hash", func(dst []byte, req *conn.Request) []byte {
			return strconv.AppendUint(dst, r.key.of(req), 16)
		})
	}
	var ofClient placeholder.Text
	seen := make(map[string]bool)
	for _, p := range sent {
		if p.Name == "" || p.Name == "id" || seen[p.Name] || Source(p.Reads()) <= handlers.FromURL {
			continue
		}
		seen[p.Name] = true
		ofClient = append(ofClient, p, placeholder.Piece{Text: "\x00"})
		d.Clients = d.Clients || p.Name == "address"
	}
	if len(ofClient) > 0 {
		add("what "+key+" says of the client", func(dst []byte, req *conn.Request) []byte {
			return placeholder.Append(dst, req, ofClient)
		})
	}
	if r.Header != "" {
		d.Clients = true
		add("the address in proxy_protocol", placeholder.AppendAddress)
	}
	if len(parts) > 0 {
		d.AppendKey = func(dst []byte, req *conn.Request) []byte {
			for _, part := range parts {
				dst = append(part(dst, req), 0) // which is in no field
			}
			return dst
		}
	}
	r.Env.Depends(d)
}

// clientChosen reports whether a client can choose the key by a cookie or a field, without its
// address.
func (k *key) clientChosen() bool {
	reads := k.text.Reads()
	return !slices.Contains(reads, "address") && Source(reads) > handlers.FromURL
}

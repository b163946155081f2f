package cgi

import (
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
)

// A Field is a header field, or a parameter, with its name.
type Field struct{ Name, Value string }

// maxOptions is how many names Connection may have beside the usual ones.
const maxOptions = 16

// upper maps a byte of a field's name to that of a parameter's; 0: no parameter can have it. Only
// letters, digits, the hyphen and the underscore are mapped. Fields with an underscore are dropped
// earlier, unless the configuration allows them: PHP turns dots and hyphens into underscores, so a
// script would take X_Forwarded_For, which no proxy in front removes or overwrites, for
// X-Forwarded-For.
var upper = func() (t [256]byte) {
	for c := range t {
		switch {
		case 'a' <= c && c <= 'z':
			t[c] = byte(c) - 'a' + 'A'
		case 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
			t[c] = byte(c)
		}
	}
	t['-'], t['_'] = '_', '_'
	return t
}()

const http = "HTTP_"

// place is a field that becomes a parameter, or a part of one, by its index.
type place struct {
	first int32 // the first of the fields that become the same parameter
	at    int32
}

// fields adds the header fields as HTTP_* parameters. Fields of the same name become one parameter,
// in the place of the first: of several parameters of a name PHP would keep the last. Where there
// may be any, sorting brings equal names together. A client may send some thousand fields, and
// comparing each with each would hold up the loop.
func (r *Request) fields(h *Vars) {
	options, host := r.options(&r.named, h)
	if host || r.Host != "" {
		r.add(h, "HTTP_HOST", r.Host)
	}
	list := r.order[:0]
	var seen uint64 // a bit for each length and first letter
	sorts := false
	for i := range r.Fields {
		name := r.Fields[i].Name
		if !r.passes(name, options) {
			continue
		}
		bit := uint64(1) << ((uint(len(name)) + 41*uint(upper[name[0]])) & 63)
		sorts = sorts || seen&bit != 0 && r.repeated(list, name)
		seen |= bit
		list = append(list, place{first: int32(i), at: int32(i)})
	}
	if r.order = list; sorts {
		r.gather(list)
	}
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].first == list[0].first {
			n++
		}
		r.field(h, list[:n])
		list = list[n:]
	}
}

// fewFields is how many fields are compared with each other.
const fewFields = 32

// repeated reports whether one of the fields may become the same parameter as one of that name.
func (r *Request) repeated(list []place, name string) bool {
	return len(list) > fewFields || slices.ContainsFunc(list, func(p place) bool {
		return same(r.Fields[p.at].Name, name)
	})
}

// gather brings the fields together that become the same parameter.
func (r *Request) gather(list []place) {
	slices.SortFunc(list, func(a, b place) int {
		if c := compare(r.Fields[a.at].Name, r.Fields[b.at].Name); c != 0 {
			return c
		}
		return int(a.at - b.at)
	})
	for i := range list {
		list[i].first = list[i].at
		if i > 0 && compare(r.Fields[list[i-1].at].Name, r.Fields[list[i].at].Name) == 0 {
			list[i].first = list[i-1].first
		}
	}
	slices.SortFunc(list, func(a, b place) int {
		if a.first != b.first {
			return int(a.first - b.first)
		}
		return int(a.at - b.at)
	})
}

// field adds one parameter, whose value joins those of the fields.
func (r *Request) field(h *Vars, parts []place) {
	name := r.Fields[parts[0].at].Name
	separator := ", " // RFC 9110 section 5.2
	if ascii.EqualFold(name, "cookie") {
		separator = "; " // RFC 6265 section 5.4
	}
	n := len(separator) * (len(parts) - 1)
	for _, p := range parts {
		n += len(r.Fields[p.at].Value)
	}
	b := append(h.Open(len(http)+len(name), n), http...)
	for k := range len(name) {
		b = append(b, upper[name[k]])
	}
	b = h.Value(b)
	for i, p := range parts {
		if i > 0 {
			b = append(b, separator...)
		}
		b = value(h, b, r.Fields[p.at].Value)
	}
	h.Close(b)
}

// passes reports whether a field of that name becomes a parameter: the configuration sets none of
// that name, and the Connection field does not name it.
func (r *Request) passes(name string, options []string) bool {
	if !r.mappable(name) || ours(name) {
		return false
	}
	for _, o := range options {
		if same(o, name) {
			return false
		}
	}
	for i := range r.Params {
		if p := r.Params[i].Name; len(p) == len(http)+len(name) && p[:len(http)] == http &&
			mapsTo(name, p[len(http):]) {
			return false
		}
	}
	return true
}

func value(h *Vars, b []byte, v string) []byte {
	if strings.IndexByte(v, 0) >= 0 {
		h.Fail(ErrPairNUL)
	}
	return append(b, v...)
}

// options gathers the names in the Connection fields into named, without the usual ones and those
// that are trusted. host reports whether there is a Host field.
func (r *Request) options(named *[maxOptions]string, h *Vars) (list []string, host bool) {
	n := 0
	for i := range r.Fields {
		f := &r.Fields[i]
		switch {
		case ascii.EqualFold(f.Name, "host"):
			host = true
		case ascii.EqualFold(f.Name, "connection") &&
			!ascii.EqualFold(f.Value, "keep-alive") && !ascii.EqualFold(f.Value, "close"):
			ascii.EachElement(f.Value, func(o string) bool {
				switch {
				// An option that is always dropped, or never.
				case ours(o) || ascii.EqualFold(o, "close") || r.trusted(o):
				case n == maxOptions:
					h.Fail(ErrOptions)
				default:
					named[n] = o
					n++
				}
				return true
			})
		}
	}
	return named[:n], host
}

// trusted reports whether Connection does not remove fields of that name.
func (r *Request) trusted(name string) bool {
	for _, t := range r.Trusted {
		if same(t, name) {
			return true
		}
	}
	return r.Own != nil && r.Own.Replaced(name)
}

// mappable reports whether a field of that name can be a parameter.
func (r *Request) mappable(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; upper[c] == 0 || c == '_' && !r.Underscores {
			return false
		}
	}
	return name != ""
}

// ours reports whether a field never becomes a parameter of its own name. That is so for fields
// about the client's connection and its framing, which end here; for fields that have a parameter
// without HTTP_; for X-Request-ID, in place of which there is Request.ID; and for Proxy. As
// HTTP_PROXY that would make the script's own HTTP client send its requests through a machine of
// the sender's choice ("httpoxy", CVE-2016-5385).
func ours(name string) bool {
	switch len(name) {
	case len("TE"):
		return mapsTo(name, "TE")
	case len("HOST"):
		return mapsTo(name, "HOST")
	case len("PROXY"):
		return mapsTo(name, "PROXY")
	}
	if len(name) >= len("PROXY_") && mapsTo(name[:len("PROXY_")], "PROXY_") {
		return true
	}
	switch len(name) {
	case len("UPGRADE"): // and of TRAILER
		return mapsTo(name, "UPGRADE") || mapsTo(name, "TRAILER")
	case len("CONNECTION"): // and of KEEP_ALIVE
		return mapsTo(name, "CONNECTION") || mapsTo(name, "KEEP_ALIVE")
	case len("CONTENT_TYPE"): // and of X_REQUEST_ID
		return mapsTo(name, "CONTENT_TYPE") || mapsTo(name, "X_REQUEST_ID")
	case len("CONTENT_LENGTH"):
		return mapsTo(name, "CONTENT_LENGTH")
	case len("TRANSFER_ENCODING"):
		return mapsTo(name, "TRANSFER_ENCODING")
	}
	return false
}

// mapsTo reports whether the field becomes the parameter, which is given without HTTP_.
func mapsTo(field, param string) bool {
	if len(field) != len(param) {
		return false
	}
	for i := 0; i < len(param); i++ {
		if upper[field[i]] != param[i] {
			return false
		}
	}
	return true
}

// same reports whether two fields become the same parameter, if they become one at all.
func same(a, b string) bool { return len(a) == len(b) && compare(a, b) == 0 }

// compare orders the names of fields by length, and then by the parameter that they become. 0: it
// is the same one.
func compare(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	for i := range len(a) {
		if x, y := upper[a[i]], upper[b[i]]; x != y {
			return int(x) - int(y)
		}
	}
	return 0
}

package cgi

import (
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// A Field is a header field, or a parameter, with its name.
type Field struct{ Name, Value string }

// Fields are the fields of a request's header.
type Fields interface {
	Len() int
	// Strings returns the name and the value of a field. They need not be valid for longer than the
	// request.
	Strings(i int) (name, value string)
}

// List is a list of fields.
type List []Field

// Len implements Fields.
func (l List) Len() int { return len(l) }

// Strings implements Fields.
func (l List) Strings(i int) (name, value string) { return l[i].Name, l[i].Value }

// maxOptions is how many names Connection may have beside the usual ones.
const maxOptions = 16

// upper maps a byte of a field's name to one of a parameter's name; 0: no parameter can have it.
// Only letters, digits, the hyphen and the underscore are mapped. Fields with an underscore are
// dropped earlier, unless the configuration allows them: PHP turns dots and hyphens into
// underscores, so a script would take X_Forwarded_For, which no proxy in front removes or
// overwrites, for X-Forwarded-For.
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

// indexedField is a field that becomes a parameter, or a part of one, by its index.
type indexedField struct {
	first int32 // the first of the fields that become the same parameter
	at    int32
}

// special are the fields that do not become a parameter of their own name, or affect other fields,
// besides those that begin with P.
var special = http1.NamesOf("Host", "Connection", "Keep-Alive", "TE", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length", "Content-Type", "X-Request-ID")

// fields adds the header fields as HTTP_* parameters, and the type of the body.
func (r *Request) fields(h *Vars) {
	if r.Fields == nil {
		if r.Host != "" {
			r.add(h, "HTTP_HOST", r.Host, "")
		}
		return
	}
	begin := *h
	if !r.addDistinct(h) {
		*h = begin
		r.addJoined(h)
	}
}

// addDistinct adds the fields one by one. It returns false, and the caller drops what it has added,
// if a field is repeated, Connection names fields, or a name cannot be a parameter.
func (r *Request) addDistinct(h *Vars) bool {
	if r.Host != "" {
		r.add(h, "HTTP_HOST", r.Host, "")
	}
	var seen uint64
	for i := range r.Fields.Len() {
		name, value := r.Fields.Strings(i)
		if name == "" {
			return false
		}
		bit := bitOf(name)
		if seen&bit != 0 && r.repeated(i, name) {
			return false
		}
		seen |= bit
		if http1.MayHave(special, name) || name[0]|0x20 == 'p' {
			switch {
			case !reserved(name):
			case r.addReserved(h, name, value):
				continue
			default:
				return false
			}
		}
		if len(r.Params) > 0 && r.configures(name) {
			continue
		}
		b := append(h.Open(len(http)+len(name), len(value)), http...)
		for k := range len(name) {
			c := upper[name[k]]
			if c == 0 || name[k] == '_' {
				return false
			}
			b = append(b, c)
		}
		b = h.Value(b)
		if strings.IndexByte(value, 0) >= 0 {
			h.Fail(ErrPairNUL)
		}
		h.Close(append(b, value...))
	}
	return true
}

// addReserved handles a reserved field. It returns false if the field affects other fields.
func (r *Request) addReserved(h *Vars, name, value string) bool {
	switch {
	case mapsTo(name, "HOST"):
		return r.Host != ""
	case mapsTo(name, "CONNECTION"):
		return ascii.EqualFold(value, "keep-alive") || ascii.EqualFold(value, "close")
	case ascii.EqualFold(name, "content-type"):
		r.add(h, "CONTENT_TYPE", value, "")
	}
	return true
}

// bitOf returns a bit for a name, by its length and its last two letters, in which the fields of
// browsers and proxies differ: by the first letter, Sec-Fetch-Site would be compared with all
// others.
func bitOf(name string) uint64 {
	n := len(name)
	return 1 << ((15*uint(n) + 3*uint(name[max(n-2, 0)]|0x20) + 29*uint(name[n-1]|0x20)) & 63)
}

// repeated reports whether one of the first n fields becomes the same parameter as name, or there
// are too many fields to compare.
func (r *Request) repeated(n int, name string) bool {
	for i := range min(n, fewFields) {
		if other, _ := r.Fields.Strings(i); same(other, name) {
			return true
		}
	}
	return n > fewFields
}

// addJoined adds any fields. Fields of the same name become one parameter, at the place of the
// first: of several parameters with one name PHP would keep the last. Sorting brings equal names
// together, since a client may send some thousand fields, and comparing each with each would block
// the loop.
//
//go:noinline
func (r *Request) addJoined(h *Vars) {
	options, host := r.options(h)
	if host || r.Host != "" {
		r.add(h, "HTTP_HOST", r.Host, "")
	}
	list := r.order[:0]
	for i := range r.Fields.Len() {
		if name, _ := r.Fields.Strings(i); r.passes(name, options) {
			list = append(list, indexedField{first: int32(i), at: int32(i)})
		}
	}
	r.order = list
	r.joinEqual(list)
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

// joinEqual brings the fields together that become the same parameter.
func (r *Request) joinEqual(list []indexedField) {
	slices.SortFunc(list, func(a, b indexedField) int {
		if c := compare(r.nameOf(a), r.nameOf(b)); c != 0 {
			return c
		}
		return int(a.at - b.at)
	})
	for i := range list {
		list[i].first = list[i].at
		if i > 0 && compare(r.nameOf(list[i-1]), r.nameOf(list[i])) == 0 {
			list[i].first = list[i-1].first
		}
	}
	slices.SortFunc(list, func(a, b indexedField) int {
		if a.first != b.first {
			return int(a.first - b.first)
		}
		return int(a.at - b.at)
	})
}

func (r *Request) nameOf(p indexedField) string {
	name, _ := r.Fields.Strings(int(p.at))
	return name
}

// field adds one parameter, whose value joins those of the fields.
func (r *Request) field(h *Vars, parts []indexedField) {
	name := r.nameOf(parts[0])
	separator := ", " // RFC 9110 section 5.2
	if ascii.EqualFold(name, "cookie") {
		separator = "; " // RFC 6265 section 5.4
	}
	n := len(separator) * (len(parts) - 1)
	for _, p := range parts {
		_, value := r.Fields.Strings(int(p.at))
		n += len(value)
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
		_, value := r.Fields.Strings(int(p.at))
		if strings.IndexByte(value, 0) >= 0 {
			h.Fail(ErrPairNUL)
		}
		b = append(b, value...)
	}
	h.Close(b)
}

// passes reports whether a field of that name becomes a parameter: the configuration sets none of
// that name, and the Connection field does not name it.
func (r *Request) passes(name string, options []string) bool {
	if !r.mappable(name) || reserved(name) || r.configures(name) {
		return false
	}
	for _, o := range options {
		if same(o, name) {
			return false
		}
	}
	return true
}

// configures reports whether the configuration sets the parameter of a field with that name.
func (r *Request) configures(name string) bool {
	for i := range r.Params {
		if p := r.Params[i].Name; len(p) == len(http)+len(name) && p[:len(http)] == http &&
			mapsTo(name, p[len(http):]) {
			return true
		}
	}
	return false
}

// options gathers the names in the Connection fields, without the usual and the trusted ones. host
// reports whether there is a Host field. It adds the type of the body: a program must only see the
// first one, which was checked.
func (r *Request) options(h *Vars) (list []string, host bool) {
	list = r.named[:0]
	typed := false
	for i := range r.Fields.Len() {
		switch name, value := r.Fields.Strings(i); {
		case ascii.EqualFold(name, "host"):
			host = true
		case ascii.EqualFold(name, "content-type") && !typed:
			typed = true
			r.add(h, "CONTENT_TYPE", value, "")
		case ascii.EqualFold(name, "connection"):
			ascii.EachElement(value, func(o string) bool {
				switch {
				// An option that is always dropped, or never.
				case reserved(o) || ascii.EqualFold(o, "close") || r.trusted(o):
				case len(list) == maxOptions:
					h.Fail(ErrOptions)
				default:
					list = append(list, o)
				}
				return true
			})
		}
	}
	r.named = list
	return list, host
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

// reserved reports whether a field never becomes a parameter of its own name. These are fields
// about the client's connection and its framing, which end here; fields that have a parameter
// without HTTP_; X-Request-ID, which Request.ID replaces; and Proxy. As HTTP_PROXY that would make
// the script's own HTTP client send its requests through a machine of the sender's choice
// ("httpoxy", CVE-2016-5385).
func reserved(name string) bool {
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

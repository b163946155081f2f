package cgi

import (
	"strings"

	"github.com/lwango/lwango/fastcgi/internal/wire"
)

// maxOptions is how many names Connection may have beside the usual.
const maxOptions = 16

// upper maps the bytes of a field's name to those of a parameter's; 0 where there is none. Only letters, digits and
// the hyphen have one, and the underscore, which is dropped earlier unless it was allowed: PHP makes underscores of
// dots and hyphens alike, so that X_Forwarded_For, which no proxy in front of us removes or overwrites, would
// arrive as X-Forwarded-For.
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

// fields adds the header fields as HTTP_* parameters. Those of the same name become one, in the place of the first,
// as there is but one parameter of a name, and of several PHP keeps the last.
func (r *Request) fields(h *wire.Head) {
	options, host := r.options(&r.named, h)
	if host || r.Host != "" {
		r.add(h, "HTTP_HOST", r.Host)
	}
next:
	for i := range r.Fields {
		f := &r.Fields[i]
		if !r.mappable(f.Name) || ours(f.Name) {
			continue
		}
		for _, o := range options {
			if same(o, f.Name) {
				continue next
			}
		}
		for j := range r.Params {
			if name := r.Params[j].Name; len(name) == len(http)+len(f.Name) && name[:len(http)] == http &&
				mapsTo(f.Name, name[len(http):]) {
				continue next
			}
		}
		for j := range r.Fields[:i] {
			if r.repeats(j, i) {
				continue next
			}
		}
		n, last := len(f.Value), i
		separator := ", " // RFC 9110 section 5.2
		if is(f.Name, "cookie") {
			separator = "; " // RFC 6265 section 5.4
		}
		for j := i + 1; j < len(r.Fields); j++ {
			if r.repeats(j, i) {
				n, last = n+len(separator)+len(r.Fields[j].Value), j
			}
		}
		b := append(h.Open(len(http)+len(f.Name), n), http...)
		for k := 0; k < len(f.Name); k++ {
			b = append(b, upper[f.Name[k]])
		}
		b = value(h, b, f.Value)
		for j := i + 1; j <= last; j++ {
			if r.repeats(j, i) {
				b = value(h, append(b, separator...), r.Fields[j].Value)
			}
		}
		h.Close(b)
	}
}

func value(h *wire.Head, b []byte, v string) []byte {
	if strings.IndexByte(v, 0) >= 0 {
		h.Fail(wire.ErrPairNUL)
	}
	return append(b, v...)
}

// repeats reports whether field j becomes the same parameter as field i, which has one.
func (r *Request) repeats(j, i int) bool {
	return same(r.Fields[j].Name, r.Fields[i].Name) && r.mappable(r.Fields[j].Name)
}

// options gathers the fields' names that the Connection fields have besides the usual, into named; host tells
// whether there is a Host field.
func (r *Request) options(named *[maxOptions]string, h *wire.Head) (list []string, host bool) {
	n := 0
	for i := range r.Fields {
		f := &r.Fields[i]
		switch {
		case is(f.Name, "host"):
			host = true
		case is(f.Name, "connection") && !is(f.Value, "keep-alive") && !is(f.Value, "close"):
			eachToken(f.Value, func(o string) {
				switch {
				case ours(o) || is(o, "close"): // dropped anyway
				case n == maxOptions:
					h.Fail(ErrOptions)
				default:
					named[n] = o
					n++
				}
			})
		}
	}
	return named[:n], host
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

// ours reports whether a field does not become a parameter by its own name: what is about the client's connection
// and the framing on it, which ends here; what has a parameter without HTTP_; and Proxy, which as HTTP_PROXY would
// tell the script's own HTTP client to send its requests through a machine of the sender's choice ("httpoxy",
// CVE-2016-5385).
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
	case len("CONTENT_TYPE"):
		return mapsTo(name, "CONTENT_TYPE")
	case len("CONTENT_LENGTH"):
		return mapsTo(name, "CONTENT_LENGTH")
	case len("TRANSFER_ENCODING"):
		return mapsTo(name, "TRANSFER_ENCODING")
	}
	return false
}

// mapsTo reports whether the field becomes the parameter, both without HTTP_.
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

// same reports whether two fields become the same parameter, if they do become one.
func same(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := 0; i < len(a); i++ {
		if upper[a[i]] != upper[b[i]] {
			return false
		}
	}
	return true
}

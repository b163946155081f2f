package conn

import (
	"iter"
	"slices"
	"strings"
	"unsafe"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Field is one header field.
type Field struct{ Name, Value string }

// Header is a list of header fields in order. Names are compared without regard to ASCII case (RFC
// 9110 section 5.1). The zero value is empty.
type Header struct {
	fields []Field
	valid  int // so many of them, from the first on, were looked at by firstBad
}

// Get returns the value of the first field of that name; "" if there is none.
func (h *Header) Get(name string) string {
	if i := h.index(name, 0); i >= 0 {
		return h.fields[i].Value
	}
	return ""
}

// Has reports whether there is a field of that name.
func (h *Header) Has(name string) bool { return h.index(name, 0) >= 0 }

// Values returns the values of all fields of that name, in order.
func (h *Header) Values(name string) []string {
	var v []string
	for i := h.index(name, 0); i >= 0; i = h.index(name, i+1) {
		v = append(v, h.fields[i].Value)
	}
	return v
}

// Set replaces all fields of that name by one. If the name is no token, or the value has CR, LF,
// NUL or another control character in it, the server sends a 500 instead of the response.
func (h *Header) Set(name, value string) {
	i := h.index(name, 0)
	if i < 0 {
		h.Add(name, value)
		return
	}
	h.fields[i] = Field{name, value}
	h.valid = min(h.valid, i)
	h.deleteFrom(i+1, name)
}

// Add appends a field.
func (h *Header) Add(name, value string) { h.fields = append(h.fields, Field{name, value}) }

// Grow makes room for n more fields, so that Add allocates once for all of them.
func (h *Header) Grow(n int) { h.fields = slices.Grow(h.fields, n) }

// Del removes all fields of that name.
func (h *Header) Del(name string) { h.deleteFrom(0, name) }

// Len returns the number of fields.
func (h *Header) Len() int { return len(h.fields) }

// All yields name and value of each field in order.
func (h *Header) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, f := range h.fields {
			if !yield(f.Name, f.Value) {
				return
			}
		}
	}
}

func (h *Header) index(name string, from int) int {
	for i := from; i < len(h.fields); i++ {
		// Most names stand in the program once, and are the same string.
		if f := &h.fields[i]; len(f.Name) == len(name) &&
			(f.Name == name || ascii.EqualFold(f.Name, name)) {
			return i
		}
	}
	return -1
}

func (h *Header) deleteFrom(from int, name string) {
	kept, valid := h.fields[:from], h.valid
	for i, f := range h.fields[from:] {
		if !ascii.EqualFold(f.Name, name) {
			kept = append(kept, f)
		} else if from+i < h.valid {
			valid--
		}
	}
	clear(h.fields[len(kept):])
	h.fields, h.valid = kept, valid
}

// firstBad returns the first field that must not be sent, nil if there is none. With CR or LF in a
// field, a client's input could write header fields and whole responses (RFC 9110 section 5.5). It
// looks once at each field, however often it is called.
func (h *Header) firstBad() *Field {
	for ; h.valid < len(h.fields); h.valid++ {
		if f := &h.fields[h.valid]; !f.sendable() {
			return f
		}
	}
	return nil
}

func (f *Field) sendable() bool {
	return http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value)
}

// MarkValid says that the fields behind the first n are valid, since another server's head was
// parsed there. So the server does not look at each octet of them again.
func (w ResponseLayer) MarkValid(n int) {
	w.live()
	w.header.markValid(n)
}

// AddValid adds n fields, of which there is the text, each as "name: value\r\n", and more behind
// them. The caller vouches for all of them.
func (w ResponseLayer) AddValid(text string, n int, more ...Field) {
	w.live()
	h := &w.header
	for before := len(h.fields); h.valid < before && h.fields[h.valid].sendable(); {
		h.valid++
	}
	allValid := h.valid == len(h.fields)
	h.fields = slices.Grow(h.fields, n+len(more))
	for text != "" {
		var f Field
		f.Name, f.Value, text = http1.CutField(text)
		h.fields = append(h.fields, f)
	}
	if h.fields = append(h.fields, more...); allValid {
		h.valid = len(h.fields)
	}
}

func (h *Header) markValid(n int) {
	n = min(n, len(h.fields)) // Set has dropped all but one of several
	for h.valid < n && h.fields[h.valid].sendable() {
		h.valid++
	}
	if h.valid >= n {
		h.valid = len(h.fields)
	}
}

// reset empties the list. It keeps the list's memory, but nothing that the list pointed to.
func (h *Header) reset() {
	clear(h.fields)
	h.fields, h.valid = h.fields[:0], 0
}

// detach copies what the list has, so that it holds nothing else in memory.
func (h *Header) detach() {
	h.fields = slices.Clip(slices.Clone(h.fields))
	for i := range h.fields {
		f := &h.fields[i]
		f.Name, f.Value = strings.Clone(f.Name), strings.Clone(f.Value)
	}
}

// This file is about the header fields of a request: those that the client has sent, and from the
// first call of Header on the list that handlers may change.

// Header returns the header fields. A handler may change them for the handlers that it calls.
func (r *Request) Header() *Header {
	if r.over() {
		return new(Header) // what is set in it must not reach the next request
	}
	if !r.listed {
		r.listed = true
		for _, f := range r.head.Fields {
			if name := r.string(f.Name); !r.consumedField(name) {
				r.header.Add(name, r.string(f.Value))
			}
		}
	}
	return &r.header
}

// consumedField reports that the server has consumedField fields of that name itself; see SetUser.
func (r *Request) consumedField(name string) bool {
	return r.authType != "" && ascii.EqualFold(name, "Authorization")
}

// changed reports whether the list differs from what Header would make anew.
func (r *Request) changed() bool {
	i, list := 0, r.header.fields
	for _, f := range r.head.Fields {
		name := f.Name.Of(r.raw)
		if r.authType != "" && ascii.EqualFold(name, "Authorization") {
			continue
		}
		if i == len(list) || list[i].Name != string(name) ||
			list[i].Value != string(f.Value.Of(r.raw)) {
			return true
		}
		i++
	}
	return i < len(list)
}

// HeaderView returns the value of the first field of that name without a copy. The caller does not
// change the value, which is valid until the handler returns, or until a handler changes Header. A
// second layer of auth finds the Authorization field that SetUser has taken out of Header.
func (r RequestLayer) HeaderView(name string) ([]byte, bool) {
	value, next := r.HeaderViewFrom(name, 0)
	return value, next > 0
}

// HeaderViewFrom is HeaderView for the first field of that name behind the first from fields of the
// header. next is what to call it with for the one after that; -1: there was none.
func (r RequestLayer) HeaderViewFrom(name string, from int) (value []byte, next int) {
	r.live()
	if r.listed && !r.consumedField(name) {
		if i := r.header.index(name, from); i >= 0 {
			return viewOf(r.header.fields[i].Value), i + 1
		}
		return nil, -1
	}
	if !r.head.MayHave(name) {
		return nil, -1
	}
	for i := from; i < len(r.head.Fields); i++ {
		if f := &r.head.Fields[i]; ascii.EqualFold(f.Name.Of(r.raw), name) {
			return f.Value.Of(r.raw), i + 1
		}
	}
	return nil, -1
}

// FieldViews are the fields of Request.Header without a copy. Like those of HeaderView, its bytes
// do not change, and are valid until the handler returns, or until a handler changes Header.
type FieldViews struct{ r *Request }

// FieldViews returns the fields of the header.
func (r RequestLayer) FieldViews() FieldViews {
	r.live()
	if r.authType != "" { // the list lacks what the server has used
		r.Header()
	}
	return FieldViews{r.Request}
}

// Len returns the number of fields.
func (v FieldViews) Len() int {
	if v.r.listed {
		return len(v.r.header.fields)
	}
	return len(v.r.head.Fields)
}

// At returns a field, and its line with the CRLF; nil if the client has sent none, or not in the
// usual form, with one space between colon and value.
func (v FieldViews) At(i int) (name, value, line []byte) {
	r := v.r
	if r.listed {
		f := &r.header.fields[i]
		return viewOf(f.Name), viewOf(f.Value), nil
	}
	f, raw := &r.head.Fields[i], r.raw
	colon, from, end := f.Name.End, f.Value.Start, f.Value.End
	if from == colon+2 && raw[colon] == ':' && raw[colon+1] == ' ' && int(end)+2 <= len(raw) &&
		raw[end] == '\r' && raw[end+1] == '\n' {
		line = raw[f.Name.Start : end+2]
	}
	return f.Name.Of(raw), f.Value.Of(raw), line
}

// Strings returns the name and the value of a field as strings, which are valid for as long as
// those of At: the caller must not keep them.
func (v FieldViews) Strings(i int) (name, value string) {
	r := v.r
	if r.listed {
		f := &r.header.fields[i]
		return f.Name, f.Value
	}
	f := &r.head.Fields[i]
	return textOf(f.Name.Of(r.raw)), textOf(f.Value.Of(r.raw))
}

// textOf returns b as a string without a copy.
func textOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// viewOf returns the bytes of s without a copy; nobody writes to them.
func viewOf(s string) []byte {
	if s == "" {
		return []byte{} // of an empty string, StringData is not specified
	}
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// AppendHeaderViews appends the values of all fields of that name to dst. They are valid until the
// handler returns.
func (r RequestLayer) AppendHeaderViews(dst [][]byte, name string) [][]byte {
	for value, next := r.HeaderViewFrom(name, 0); next >= 0; value, next = r.HeaderViewFrom(name,
		next) {
		dst = append(dst, value)
	}
	return dst
}

// tooLate reports a field that must not be in a trailer, in any case of letters: the receiver needs
// it before the content, for the framing, for routing, as a condition or a control of the request,
// for authentication, or to understand the content (RFC 9110 section 6.5.1). A receiver that merges
// the trailer with the header would otherwise get past what was decided by the header. The list is
// that of net/http with the fields of RFC 6265, which authenticate, too.
func tooLate[T string | []byte](name T) bool {
	if len(name) > 3 && ascii.EqualFold(name[:3], "If-") {
		return true
	}
	for _, f := range [...]string{
		"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "TE", "Trailer",
		"Transfer-Encoding",

		"Cache-Control", "Expect", "Host", "Max-Forwards", "Pragma", "Range",

		"Authorization", "Cookie", "Proxy-Authenticate", "Proxy-Authorization", "Realm",
		"Set-Cookie", "WWW-Authenticate",

		"Content-Encoding", "Content-Range", "Content-Type",
	} {
		if ascii.EqualFold(name, f) {
			return true
		}
	}
	return false
}

func has(fields []Field, name string) bool {
	for i := range fields {
		if ascii.EqualFold(fields[i].Name, name) {
			return true
		}
	}
	return false
}

var serverSet = http1.NamesOf("Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding",
	"Date")

// setByServer reports a field that the server sets itself. dated: the date is the handler's.
func setByServer(name string, dated bool) bool {
	return ofServer(name) || !dated && ascii.EqualFold(name, "Date")
}

// ofServer reports a field that speaks of the connection or of the framing.
func ofServer(name string) bool {
	switch len(name) {
	case len("Connection"):
		return ascii.EqualFold(name, "Connection") || ascii.EqualFold(name, "Keep-Alive")
	case len("Content-Length"):
		return ascii.EqualFold(name, "Content-Length")
	case len("Transfer-Encoding"):
		return ascii.EqualFold(name, "Transfer-Encoding")
	}
	return false
}

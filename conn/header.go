package conn

import (
	"iter"
	"slices"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
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
		if ascii.EqualFold(h.fields[i].Name, name) {
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
		f := &h.fields[h.valid]
		if !http1.ValidToken(f.Name) || !http1.ValidFieldValue(f.Value) {
			return f
		}
	}
	return nil
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

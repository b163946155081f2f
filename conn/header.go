package conn

import (
	"iter"
	"slices"

	"github.com/lwango/lwango/internal/ascii"
)

// Field is one header field.
type Field struct{ Name, Value string }

// Header is a list of header fields in order. Names are compared without regard to ASCII case (RFC
// 9110 section 5.1). The zero value is empty.
type Header struct{ fields []Field }

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
	kept := h.fields[:from]
	for _, f := range h.fields[from:] {
		if !ascii.EqualFold(f.Name, name) {
			kept = append(kept, f)
		}
	}
	clear(h.fields[len(kept):])
	h.fields = kept
}

// reset empties the list. It keeps the list's memory, but nothing that the list pointed to.
func (h *Header) reset() {
	clear(h.fields)
	h.fields = h.fields[:0]
}

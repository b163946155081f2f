package conn

import (
	"unsafe"

	"github.com/lwango/lwango/internal/ascii"
)

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
			if name := r.string(f.Name); !r.used(name) {
				r.header.Add(name, r.string(f.Value))
			}
		}
	}
	return &r.header
}

// used reports that the server has used fields of that name itself; see SetUser.
func (r *Request) used(name string) bool {
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
	if r.listed && !r.used(name) {
		if i := r.header.index(name, from); i >= 0 {
			return viewOf(r.header.fields[i].Value), i + 1
		}
		return nil, -1
	}
	for i := from; i < len(r.head.Fields); i++ {
		if f := &r.head.Fields[i]; ascii.EqualFold(f.Name.Of(r.raw), name) {
			return f.Value.Of(r.raw), i + 1
		}
	}
	return nil, -1
}

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
	for value, next := r.HeaderViewFrom(name, 0); next >= 0; value, next = r.HeaderViewFrom(name, next) {
		dst = append(dst, value)
	}
	return dst
}

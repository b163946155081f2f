package conn

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/lwango/lwango/internal/wire/http1"
)

// copied is memory for the copy of a request, which is used again.
type copied struct {
	raw    []byte
	fields []http1.Field
}

// What a background subrequest that is used again has memory for at most, in bytes and fields.
const (
	usualRaw    = 2 << 10
	usualFields = 48
)

// copyTo makes r, which is new, a request for the same as of, which does not need of any more, with
// extra in place of the fields that drop tells, which are among dropped.
func (e *copied) copyTo(r, of *Request, dropped http1.NameSet, drop func(name string) bool,
	extra []Field) {
	r.head = of.head
	r.head.ContentLength, r.head.Chunked = -1, false
	size := len(of.raw)
	for _, f := range extra {
		size += len(f.Name) + len(f.Value) + len(": \r\n")
	}
	e.raw = append(slices.Grow(e.raw[:0], size), of.raw...)
	r.raw = e.raw
	names := http1.NameSet(0)
	for i := range extra {
		names |= http1.NamesOf(extra[i].Name)
	}
	fields := slices.Grow(e.fields[:0], len(of.head.Fields)+len(extra))
	all := !of.head.MayHaveSome(dropped | names)
	if all {
		fields = append(fields, of.head.Fields...)
	} else {
		for _, f := range of.head.Fields {
			name := f.Name.Of(of.raw)
			if !replaced(name, extra) && !drop(unsafe.String(unsafe.SliceData(name), len(name))) {
				fields = append(fields, f)
			}
		}
	}
	if r.listed = of.listed; r.listed {
		r.header.fields = slices.DeleteFunc(slices.Clone(of.header.fields), func(f Field) bool {
			return drop(f.Name) || replaced([]byte(f.Name), extra)
		})
		r.header.fields = append(r.header.fields, extra...)
	}
	add := func(s, behind string) http1.Span {
		from := len(r.raw)
		r.raw = append(append(r.raw, s...), behind...)
		return http1.Span{Start: uint32(from), End: uint32(from + len(s))}
	}
	for _, f := range extra { // in the form that goes on as it is, see FieldViews
		fields = append(fields, http1.Field{Name: add(f.Name, ": "), Value: add(f.Value, "\r\n")})
	}
	if e.raw, e.fields = r.raw, fields; all {
		r.head.AddFields(fields, names)
	} else {
		r.head.SetFields(r.raw, fields)
	}
	if at := of.head.Path; at.Len() > 0 && len(of.path) > 0 && &of.path[0] == &of.raw[at.Start] {
		r.path = r.raw[at.Start:][:len(of.path)]
	} else {
		r.path = bytes.Clone(of.path)
	}
	r.rewritten, r.rewrites, r.internal = of.rewritten, of.rewrites, of.internal
	r.prefix, r.user, r.authType = of.prefix, of.user, of.authType
	r.replaced = slices.Clip(of.replaced)
	r.values = slices.DeleteFunc(slices.Clone(of.values), value.once)
	r.matched = of.matched
	r.matched.compact()
	r.proxied, r.scheme, r.client = of.proxied, of.scheme, of.client
}

// replaced reports whether one of extra is in the place of a field of that name.
func replaced(name []byte, extra []Field) bool {
	for i := range extra {
		if len(extra[i].Name) == len(name) && http1.SameVariable(string(name), extra[i].Name) {
			return true
		}
	}
	return false
}

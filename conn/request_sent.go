package conn

import (
	"bytes"
	"unsafe"

	"github.com/lwango/lwango/internal/wire/http1"
)

// What goes on of a request's target, and what judges it. Whoever sends a path on, keys by it or
// shows it uses these; whoever judges it looks at PathView and at all of OtherReadings.

// sent is what was made of the target. Nearly always it stands in the head as it shall be, and
// nothing is made.
type sent struct {
	path     []byte // see SentPathView; nil: not made yet
	asked    []byte // see OriginalTargetView; nil: not made yet
	readings []Reading
	read     bool // readings are made
}

// SentPathView returns the path as it goes on to another program: as the client has sent it, or as
// Rewrite was given it, with every encoding and every empty segment. But dot segments are resolved,
// an octet that may not stand in a path is encoded, and slashes at the beginning are one (RFC 3986
// sections 3.3 and 5.2.4). PathView is the same path decoded, with a run of slashes made one. It is
// valid until the handler returns, and must not be changed.
func (r RequestLayer) SentPathView() []byte {
	r.live()
	if r.sent.path == nil {
		r.sent.path = http1.Sent(r.RawPathView())
	}
	return r.sent.path
}

// AppendTarget appends the target as it goes on to another program: SentPathView, and the query as
// it was sent, with its question mark even if nothing follows that. What a module does with the
// prefix of its route, and with empty segments, depends on nothing else; so two requests with the
// same target are the same to an upstream, as far as a target counts.
func (r RequestLayer) AppendTarget(dst []byte) []byte {
	return r.AppendQuery(append(dst, r.SentPathView()...))
}

// AppendQuery appends the query with its question mark, even if nothing follows that.
func (r RequestLayer) AppendQuery(dst []byte) []byte {
	if query, ok := r.sentQuery(); ok {
		dst = append(append(dst, '?'), query...)
	}
	return dst
}

// sentQuery returns the query; ok is false if there is not even a question mark.
func (r RequestLayer) sentQuery() (query []byte, ok bool) {
	if r.rewritten != "" {
		_, query, ok = bytes.Cut(view(r.rewritten), []byte{'?'})
		return query, ok
	}
	return r.head.Query.Of(r.raw), r.head.Query.Start > 0 // a path of one byte at least is before it
}

// AppendSubPath appends the part of SentPathView below the route's prefix: it begins with a slash
// that is not encoded, or there is none, and nothing is appended.
func (r RequestLayer) AppendSubPath(dst []byte) []byte {
	return http1.AppendBelow(dst, r.SentPathView(), r.prefixLen())
}

// prefixLen returns how many bytes of PathView the prefix has, without a slash at its end.
func (r *Request) prefixLen() int {
	n := len(r.prefix)
	if n > 0 && r.prefix[n-1] == '/' {
		n--
	}
	return n
}

// OriginalTargetView is AppendTarget for what the client has asked for, whatever rules have made of
// that: "*", or path and query, also of a target in absolute-form. It is valid until the handler
// returns, and must not be changed.
func (r RequestLayer) OriginalTargetView() []byte {
	r.live()
	if r.sent.asked != nil {
		return r.sent.asked
	}
	target, path := r.TargetView(), r.head.Path.Of(r.raw)
	switch sent := http1.Sent(path); {
	case r.head.Asterisk:
		r.sent.asked = []byte{'*'} // also of "OPTIONS http://example.org"
	case len(path) > 0 && &sent[0] == &path[0] && &path[0] == &target[0]:
		r.sent.asked = target
	default:
		r.sent.asked = sent[:len(sent):len(sent)]
		if r.head.Query.Start > 0 {
			r.sent.asked = append(append(r.sent.asked, '?'), r.head.Query.Of(r.raw)...)
		}
	}
	return r.sent.asked
}

// Reading is a path as a program may read it. With nothing but a Path, it is read as PathView is.
type Reading struct {
	Path []byte // valid until the handler returns; a NUL is an encoded slash in a segment
	how  http1.Reading
}

// Read reads another path, in the form of SentPathView, in the same way.
func (r Reading) Read(sent []byte) []byte { return r.how.Append(nil, sent) }

// Sent returns the part of sent, which is what Path was read from, that stands for Path[from:to].
// It must not be changed.
func (r Reading) Sent(sent []byte, from, to int) []byte { return r.how.Raw(sent, from, to) }

// OtherReadings returns the ways to read the path as it goes on to another program that differ from
// PathView: nearly always none. A slash that the client has encoded is one to some programs, and
// part of a segment to others; two slashes in a row are one, or have an empty segment between them.
// What guards a program judges all of them. Neither PathView nor any of these has a dot segment.
func (r RequestLayer) OtherReadings() []Reading {
	raw := r.RawPathView()
	if len(raw) == len(r.path) { // cleaning and decoding only shorten
		return nil
	}
	if !r.sent.read {
		r.sent.readings, r.sent.read = ReadingsOf(r.SentPathView()), true
	}
	return r.sent.readings
}

// ReadingsOf is OtherReadings of a path in the form of SentPathView.
func ReadingsOf(path []byte) (all []Reading) {
	for _, how := range http1.Readings(path) {
		all = append(all, Reading{how.Append(make([]byte, 0, len(path)), path), how})
	}
	return all
}

// view returns the bytes of a string, which must not be changed.
func view(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

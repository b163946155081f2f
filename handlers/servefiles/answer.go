package servefiles

import (
	"errors"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/wire/byteranges"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// answer decides between the whole file, ranges of it and none of it. It owns f, and sets header
// fields only once the status is certain: caches must not keep an error page for as long as the
// file.
func (m *module) answer(req *conn.Request, resp *conn.Response, f *regularFile) int {
	facts := f.facts
	switch status := http1.Precondition(req.Layer(), facts.validators(), true); status {
	case http.StatusNotModified:
		f.Close()
		m.describe(resp, facts)
		return status
	case http.StatusPreconditionFailed:
		f.Close()
		return status
	}
	if !f.counted(req) {
		resp.Header().Set("Retry-After", "1")
		return http.StatusServiceUnavailable
	}
	// Range is defined for GET alone (RFC 9110 section 14.2).
	if has(req, "Range") && req.Method() == http.MethodGet &&
		http1.RangeApplies(req.Layer(), facts.validators(), req.Loop().Time(), m.negotiated(resp, f)) {
		if status := m.ranges(req, resp, f); status != 0 {
			return status
		}
	}
	h := resp.Header()
	before := h.Len()
	h.Set("Accept-Ranges", "bytes")
	m.whole(req, resp, f)
	resp.Layer().MarkValid(before) // facts and settings have no character that a value must not have
	return http.StatusOK
}

// whole answers with all of f.
func (m *module) whole(req *conn.Request, resp *conn.Response, f *regularFile) {
	m.describe(resp, f.facts)
	setType(resp, f.facts)
	encoded, as := m.encoded(req, resp, f)
	if f.content == nil && f.from == nil && f.facts.size <= smallBody &&
		req.Method() == http.MethodGet {
		resp.SetBodyReader(f, f.facts.size)
	} else {
		setPiece(resp, f, 0, f.facts.size)
	}
	if encoded == nil {
		return
	}
	b, err := encoded.Value()
	if err == loop.ErrPending {
		// The wait goes on if the client leaves: the client may have ended its half of the connection
		// only, and the request of a handler that was told of it is logged as 499. f is the response's
		// by now, also if this thread is killed.
		was := req.KeepWaiting(true)
		b, err = encoded.Await(req.Thread, -1)
		req.KeepWaiting(was)
	}
	if err == nil && b != nil {
		resp.Layer().SetEncoded(as.String(), b)
	}
}

// setPiece makes n bytes of f from off on the body.
func setPiece(resp *conn.Response, f *regularFile, off, n int64) {
	switch {
	case f.from != nil:
		f.at = off
		resp.SetBodyReader(f, n)
		return
	case f.content == nil:
		resp.SetBodyFile(f, off, n)
		return
	}
	resp.SetBody(f.content[off : off+n])
	_ = f.Close()
}

// setType sets the media type, unless the handler that named the file has set one, and the coding.
func setType(resp *conn.Response, facts *metadata) {
	h := resp.Header()
	if !h.Has("Content-Type") {
		h.Set("Content-Type", facts.contentType)
	}
	if facts.coding != coding.Identity {
		h.Set("Content-Encoding", facts.coding.String())
	}
}

// smallBody is the length up to which a file is read and sent in one write together with its head.
// For longer ones sendfile costs less than the copy.
const smallBody = 16 << 10

// describe sets the fields that a 200, a 206 and a 304 have in common (RFC 9110 section 15.4.5).
// What says already how the answer may be kept stays.
func (m *module) describe(resp *conn.Response, facts *metadata) {
	h := resp.Header()
	h.Set("ETag", facts.etag)
	if facts.lastModified != "" {
		h.Set("Last-Modified", facts.lastModified)
	}
	if m.cacheControl != "" && !h.Has("Cache-Control") {
		h.Set("Cache-Control", m.cacheControl)
	}
}

// ranges answers a Range field: 206, or 416 if no range lies in the file. It returns 0, and f is
// still open, if the field is to be ignored.
func (m *module) ranges(req *conn.Request, resp *conn.Response, f *regularFile) int {
	facts := f.facts
	values := req.Header().Values("Range")
	if len(values) != 1 {
		return 0 // which of them is meant?
	}
	ranges, err := http1.ParseRange(values[0], facts.size)
	h := resp.Header()
	switch {
	case errors.Is(err, http1.ErrRangeUnsatisfiable):
		f.Close()
		h.Set("Content-Range", byteranges.ContentRange(http1.Range{}, facts.size))
		return http.StatusRequestedRangeNotSatisfiable
	case err != nil, len(ranges) > 1 && (h.Has("Content-Encoding") || facts.coding != coding.Identity):
		return 0 // parts of what is encoded: see sibling
	}
	setType(resp, facts)
	if len(ranges) == 1 {
		h.Set("Content-Range", byteranges.ContentRange(ranges[0], facts.size))
		setPiece(resp, f, ranges[0].Start, ranges[0].Length)
	} else {
		body, boundary, length := byteranges.New(content{f}, ranges, h.Get("Content-Type"), facts.size)
		h.Del("Content-Range") // each part has its own (RFC 9110 section 15.3.7.2)
		h.Set("Content-Type", "multipart/byteranges; boundary="+boundary)
		resp.SetBodyReader(body, length)
	}
	m.describe(resp, facts)
	h.Set("Accept-Ranges", "bytes")
	return http.StatusPartialContent
}

// has reports whether the request has a field of that name.
func has(req *conn.Request, name string) bool {
	_, ok := req.Layer().HeaderView(name)
	return ok
}

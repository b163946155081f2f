package servefiles

import (
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/http1"
)

// conditional reports whether a request has any of the fields that precondition looks at. Most have
// none, and then no strings of their header section are made.
func conditional(req *conn.Request) bool {
	return has(req, "If-None-Match") || has(req, "If-Modified-Since") || has(req, "If-Match") ||
		has(req, "If-Unmodified-Since")
}

func has(req *conn.Request, name string) bool {
	_, ok := req.HeaderView(name)
	return ok
}

// precondition evaluates the conditional fields of a GET or HEAD in the order of RFC 9110 section
// 13.2.2. It returns 412, 304, or 0 for "go on"; the fifth step, If-Range, is rangeApplies.
func precondition(h *conn.Header, f *facts) int {
	if h.Has("If-Match") {
		if !matches(h, "If-Match", f.etag, false) {
			return http.StatusPreconditionFailed
		}
	} else if date, ok := dateIn(h, "If-Unmodified-Since"); ok && f.dated() && f.modified > date {
		return http.StatusPreconditionFailed
	}
	if h.Has("If-None-Match") {
		if matches(h, "If-None-Match", f.etag, true) {
			return http.StatusNotModified
		}
	} else if date, ok := dateIn(h, "If-Modified-Since"); ok && f.dated() && f.modified <= date {
		return http.StatusNotModified
	}
	return 0
}

// matches looks for the entity tag in a list, which may stand in several fields of that name (RFC
// 9110 section 5.3).
func matches(h *conn.Header, name, etag string, weak bool) bool {
	for _, list := range h.Values(name) {
		if http1.MatchETag(list, etag, weak) {
			return true
		}
	}
	return false
}

// dateIn returns the date in a field, in Unix seconds. A field that is no date, or is there twice,
// counts as absent (RFC 9110 sections 13.1.3 and 13.1.4).
func dateIn(h *conn.Header, name string) (seconds int64, ok bool) {
	values := h.Values(name)
	if len(values) != 1 {
		return 0, false
	}
	t, err := http1.ParseDate(values[0])
	return t.Unix(), err == nil
}

// rangeApplies reports whether a Range field is to be followed: If-Range must be absent or name the
// file's present state (RFC 9110 section 13.1.5). An entity tag compares strongly, a date exactly,
// and only where it is a strong validator: at least a second older than the Date of this answer
// (section 8.8.2.2). A file that was written within this second may be written again within it, and
// the client would put pieces of two files together. Nor is a date a strong validator of what is
// negotiated: it is the same for the file in all codings, and the part that the client has may be
// of another one. Any other value of the field matches nothing, and the client gets the whole file.
func rangeApplies(h *conn.Header, f *facts, now time.Time, negotiated bool) bool {
	values := h.Values("If-Range")
	switch {
	case len(values) == 0:
		return true
	case len(values) > 1:
		return false
	case values[0] == f.etag:
		return true
	}
	date, ok := dateIn(h, "If-Range")
	return ok && !negotiated && f.dated() && date == f.modified && now.Unix() > date
}

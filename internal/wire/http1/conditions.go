package http1

import (
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
)

// What Precondition returns.
const (
	NotModified        = 304
	PreconditionFailed = 412
)

// Fields are those of a request. A conn.RequestLayer has them.
type Fields interface {
	// HeaderViewFrom returns the value of the first field of that name behind the first from fields of
	// the header, and what to call it with for the one after that; -1: there was none.
	HeaderViewFrom(name string, from int) (value []byte, next int)
}

func has(h Fields, name string) bool {
	_, next := h.HeaderViewFrom(name, 0)
	return next >= 0
}

// one returns the value of a field that must not be repeated. there says whether the field exists.
func one(h Fields, name string) (value []byte, there, single bool) {
	value, next := h.HeaderViewFrom(name, 0)
	if next < 0 {
		return nil, false, false
	}
	_, next = h.HeaderViewFrom(name, next)
	return value, true, next < 0
}

// Validators distinguish the states of a representation (RFC 9110 section 8.8).
type Validators struct {
	ETag     string
	Modified int64 // Unix seconds, and not in the future
	Dated    bool  // whether Modified is known
}

// Precondition evaluates the conditional fields of a request in the order of RFC 9110 section
// 13.2.2. read says that its method is GET or HEAD. It returns 412, 304, or 0 for "go on"; the
// fifth step, If-Range, is RangeApplies. Both allocate nothing.
func Precondition(h Fields, v Validators, read bool) int {
	if has(h, "If-Match") {
		if !matches(h, "If-Match", v, false) {
			return PreconditionFailed
		}
	} else if date, ok := dateIn(h, "If-Unmodified-Since"); ok && v.Dated && v.Modified > date {
		return PreconditionFailed
	}
	switch {
	case has(h, "If-None-Match"):
		if !matches(h, "If-None-Match", v, true) {
			return 0
		}
		if !read {
			return PreconditionFailed
		}
		return NotModified
	case read:
		if date, ok := dateIn(h, "If-Modified-Since"); ok && v.Dated && v.Modified <= date {
			return NotModified
		}
	}
	return 0
}

// matches looks for the entity tag in a list, which may stand in several fields of that name (RFC
// 9110 section 5.3). "*" stands for whatever there is, also if that has a date only.
func matches(h Fields, name string, v Validators, weak bool) bool {
	for list, next := h.HeaderViewFrom(name, 0); next >= 0; list, next = h.HeaderViewFrom(name, next) {
		if MatchETag(list, v.ETag, weak) || v.Dated && string(ascii.TrimOWS(list)) == "*" {
			return true
		}
	}
	return false
}

// dateIn returns the date in a field, in Unix seconds. A field that is no date, or is there twice,
// counts as absent (RFC 9110 sections 13.1.3 and 13.1.4).
func dateIn(h Fields, name string) (seconds int64, ok bool) {
	value, _, single := one(h, name)
	if !single {
		return 0, false
	}
	t, err := ParseDate(value)
	return t.Unix(), err == nil
}

// RangeApplies reports whether a Range field is to be followed: If-Range must be absent or name the
// present state (RFC 9110 section 13.1.5). An entity tag compares strongly, a date exactly,
// and only where it is a strong validator: at least a second older than the Date of this answer
// (section 8.8.2.2). A file that was written within this second may be written again within it, and
// the client would put pieces of two files together. Nor is a date a strong validator of what is
// negotiated: it is the same for the file in all codings, and the part that the client has may be
// of another one. Any other value of the field matches nothing, and the client gets the whole file.
func RangeApplies(h Fields, v Validators, now time.Time, negotiated bool) bool {
	value, there, single := one(h, "If-Range")
	switch {
	case !there:
		return true
	case !single:
		return false
	case v.ETag != "" && v.ETag[0] == '"' && string(value) == v.ETag: // no weak one
		return true
	}
	date, ok := dateIn(h, "If-Range")
	return ok && !negotiated && v.Dated && date == v.Modified && now.Unix() > date
}

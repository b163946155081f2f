package rfc9111

import (
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Fields are those of a request. A conn.RequestLayer has them.
type Fields interface {
	// HeaderViewFrom returns the value of the first field of that name behind the first from fields
	// of the header, and what to call it with for the one after that; -1: there was none.
	HeaderViewFrom(name string, from int) (value []byte, next int)
}

// A Request is what a request says to caches: the directives of its Cache-Control (RFC 9111 section
// 5.2.1), and fields that change what a cache does.
type Request struct {
	Method string

	// Durations are negative where the directive is absent.
	MaxAge   time.Duration
	MinFresh time.Duration
	MaxStale time.Duration // without an argument: as long as there is

	NoCache      bool
	NoStore      bool
	OnlyIfCached bool

	Authorized bool // there is an Authorization field
	// Conditional on what only the origin knows: If-Match or If-Unmodified-Since (RFC 9111 section
	// 4.3.2). No cache answers the request.
	Guarded     bool
	Conditional bool // on what a cache knows: If-None-Match or If-Modified-Since
	Ranged      bool // there is a Range field; meaningless for other methods than GET
}

// Plain is ReadRequest for a request without any field that it reads.
func Plain(method string) Request {
	return Request{Method: method, MaxAge: unset, MinFresh: unset, MaxStale: unset}
}

// ReadRequest reads the fields of a request. Pragma counts where there is no Cache-Control (section
// 5.4). It allocates nothing.
func ReadRequest(method string, fields Fields) Request {
	r := Plain(method)
	value, next := fields.HeaderViewFrom("Cache-Control", 0)
	if next < 0 {
		if value, next = fields.HeaderViewFrom("Pragma", 0); next > 0 {
			r.NoCache = ascii.HasToken(value, "no-cache")
		}
	} else {
		for ; next > 0; value, next = fields.HeaderViewFrom("Cache-Control", next) {
			directives(value, r.directive)
		}
	}
	r.Authorized = has(fields, "Authorization")
	r.Guarded = has(fields, "If-Match") || has(fields, "If-Unmodified-Since")
	r.Conditional = has(fields, "If-None-Match") || has(fields, "If-Modified-Since")
	r.Ranged = has(fields, "Range")
	return r
}

func has(fields Fields, name string) bool {
	_, next := fields.HeaderViewFrom(name, 0)
	return next > 0
}

// directive takes one. Of two with different numbers the stricter one counts.
func (r *Request) directive(name, argument []byte, bare bool) {
	switch {
	case ascii.EqualFold(name, "max-age"):
		if d, ok := delta(argument); ok && (r.MaxAge == unset || d < r.MaxAge) {
			r.MaxAge = d
		}
	case ascii.EqualFold(name, "min-fresh"):
		if d, ok := delta(argument); ok {
			r.MinFresh = max(r.MinFresh, d)
		}
	case ascii.EqualFold(name, "max-stale"):
		d, ok := delta(argument)
		if bare {
			d, ok = maxDelta*time.Second, true
		}
		if ok && (r.MaxStale == unset || d < r.MaxStale) {
			r.MaxStale = d
		}
	case ascii.EqualFold(name, "no-cache"):
		r.NoCache = true
	case ascii.EqualFold(name, "no-store"):
		r.NoStore = true
	case ascii.EqualFold(name, "only-if-cached"):
		r.OnlyIfCached = true
	}
}

// Ignore forgets the directives of the request: clients have no say in what the cache does then.
func (r *Request) Ignore() {
	r.MaxAge, r.MinFresh, r.MaxStale = unset, unset, unset
	r.NoCache, r.NoStore, r.OnlyIfCached = false, false, false
}

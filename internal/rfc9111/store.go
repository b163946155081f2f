package rfc9111

import "time"

// Rules are what an operator adds to what an answer says. The zero value adds nothing.
type Rules struct {
	// TTL is how long an answer is fresh that says nothing of its freshness, by itself or by the date
	// of its last change. The caller chooses it by the status. 0: such an answer is not kept.
	TTL time.Duration

	// Heuristic is the part of the time since Last-Modified, in percent, for which an answer without
	// a freshness of its own is fresh (RFC 9111 section 4.2.2), but for HeuristicMax at most. 0: off.
	Heuristic    int
	HeuristicMax time.Duration

	// What an answer may be used for when it is stale and says nothing itself (RFC 5861).
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration

	// KeepCookies lets answers with Set-Cookie be kept as any other. Else they are not, since a
	// cookie is for one client.
	KeepCookies bool
}

// Why says why an answer is not kept.
type Why uint8

const (
	Kept           Why = iota
	WhyMethod          // only answers to GET are kept
	WhyStatus          // interim, partial, or not known to be cacheable
	WhyRequest         // the request has no-store
	WhyNoStore         // the answer has no-store
	WhyPrivate         // the answer is for one client
	WhyAuthorized      // the request has Authorization, and the answer does not allow it
	WhySetCookie       // the answer sets a cookie
	WhyVary            // Vary: *, or too many names
	WhyNoFreshness     // it would never be used
)

var whys = [...]string{"kept", "method", "status", "request-no-store", "no-store", "private",
	"authorization", "set-cookie", "vary", "no-freshness"}

// String returns a token, as for the detail of Cache-Status.
func (w Why) String() string { return whys[w] }

// Store decides whether the answer to a request may be kept (RFC 9111 section 3), and for how long
// it is fresh (section 4.2.1). now is when its head came. Where the answer is not kept, the
// Freshness means nothing.
func (rules *Rules) Store(ask *Request, answer *Response, now time.Time) (Freshness, Why) {
	panic("soon")
}

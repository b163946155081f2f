package rfc9111

import (
	"cmp"
	"strings"
	"time"
)

// Rules are what an operator adds to what an answer says. The zero value adds nothing.
type Rules struct {
	// TTL is how long an answer is fresh that says nothing of its freshness, by itself or by the
	// date of its last change. The caller chooses it by the status. 0: such an answer is not kept.
	TTL time.Duration

	// Heuristic is the part of the time since Last-Modified, in percent, for which an answer
	// without a freshness of its own is fresh (RFC 9111 section 4.2.2), but for HeuristicMax at
	// most. 0: off.
	Heuristic    int
	HeuristicMax time.Duration

	// What an answer may be used for when it is stale and says nothing itself (RFC 5861).
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration

	// Vary returns what an answer varies by whose Vary names these fields, where the server makes
	// them itself before the request reaches the application. nil: no field is the server's own.
	Vary func(Vary) Vary

	// OwnCookie is the name of a cookie that the server itself sets, beside what the application says.
	// An answer with no other one is kept as if it had none. "": there is none.
	OwnCookie string

	// DropCookies lets answers with Set-Cookie be kept without it: Keeps reports false for it.
	DropCookies bool

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
// it is fresh (section 4.2.1). asked is when the request was sent to the upstream, now when the
// head of the answer came. Where the answer is not kept, the Freshness means nothing. answer.Vary
// becomes what Rules.Vary makes of it, and OwnCookie is not among what Keeps reports.
//
// After a 304, the caller stores anew: answer is then what ReadResponse makes of the updated
// fields, with the status of the kept answer, and Date and Age of the 304.
func (rules *Rules) Store(ask *Request, answer *Response, asked, now time.Time) (Freshness, Why) {
	if why := storable(ask, answer); why != Kept {
		return Freshness{}, why
	}
	if rules.Vary != nil && answer.Vary != "" {
		answer.Vary = rules.Vary(answer.Vary)
	}
	if answer.SetCookie && (rules.DropCookies || rules.ownCookie(answer.cookie)) {
		answer.SetCookie, answer.Omitted = false, append(answer.Omitted, "Set-Cookie")
	}
	switch {
	case answer.SetCookie && !rules.KeepCookies:
		return Freshness{}, WhySetCookie
	case answer.Vary == VaryAny:
		return Freshness{}, WhyVary
	}
	f := Freshness{
		Received: now.UnixNano(),
		Age:      initialAge(answer, asked, now),
		Validate: answer.NoCache,
		Strict: answer.NoCache || answer.MustRevalidate || answer.ProxyRevalidate ||
			answer.SMaxAge != unset, // RFC 9111 section 5.2.2.10
	}
	explicit := rules.lifetime(&f, answer, now)
	rules.stale(&f, answer)
	validators := answer.ETag != "" || answer.LastModified != 0
	switch {
	case f.Lifetime > f.Age && !f.Validate:
	case (explicit || f.Validate) && validators:
	case f.StaleWhileRevalidate > 0 || f.StaleIfError > 0:
	default:
		return Freshness{}, WhyNoFreshness
	}
	return f, Kept
}

// ownCookie reports whether the value of a Set-Cookie is OwnCookie's.
func (rules *Rules) ownCookie(value string) bool {
	rest, ok := strings.CutPrefix(value, rules.OwnCookie)
	return ok && rules.OwnCookie != "" && strings.HasPrefix(rest, "=")
}

// storable is what RFC 9111 section 3 alone says, but for freshness.
func storable(ask *Request, answer *Response) Why {
	switch {
	case ask.Method != "GET":
		return WhyMethod
	case ask.NoStore:
		return WhyRequest
	case answer.Private:
		return WhyPrivate
	case answer.MustUnderstand && !understood(answer.Status):
		return WhyStatus
	case answer.NoStore && !answer.MustUnderstand: // section 5.2.2.3
		return WhyNoStore
	case ask.Authorized && !answer.Public && !answer.MustRevalidate && answer.SMaxAge == unset:
		return WhyAuthorized // section 3.5
	}
	if !Keeps(answer.Status) {
		return WhyStatus
	}
	return Kept
}

// Keeps reports whether answers of a status may be kept at all.
func Keeps(status int) bool {
	switch status {
	case 206, 304, 412, 416: // about a part, or about conditions
		return false
	}
	return 200 <= status && status <= 599
}

// understood reports whether we know all that a status means for caches (section 5.2.2.3).
func understood(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 406, 410, 414, 421,
		451, 500, 501, 502, 503, 504:
		return true
	}
	return false
}

// heuristic reports whether an answer of a status may be fresh though it says nothing of its
// freshness (RFC 9110 section 15.1).
func heuristic(status int) bool {
	switch status {
	case 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501:
		return true
	}
	return false
}

// initialAge is corrected_initial_age of RFC 9111 section 4.2.3. What it adds for the time that the
// answer took is added only where a cache in between has counted the answer's age: without one the
// answer is as old as its Date says. Else the answer of a slow application would be stale when it
// comes, which a ttl of a second is set against.
func initialAge(answer *Response, asked, now time.Time) time.Duration {
	var apparent time.Duration
	if answer.Date != 0 {
		apparent = seconds(now.Unix() - answer.Date)
	}
	corrected := answer.Age
	if corrected > 0 {
		corrected += max(0, now.Sub(asked))
	}
	return max(apparent, corrected)
}

// seconds returns n seconds, and 0 if n is negative.
func seconds(n int64) time.Duration { return time.Duration(max(0, min(n, maxDelta))) * time.Second }

// lifetime sets for how long the answer is fresh (section 4.2.1), and reports whether the answer
// says so itself.
func (rules *Rules) lifetime(f *Freshness, answer *Response, now time.Time) (explicit bool) {
	switch {
	case answer.SMaxAge != unset:
		f.Lifetime = answer.SMaxAge
	case answer.MaxAge != unset:
		f.Lifetime = answer.MaxAge
	case answer.HasExpires:
		from := answer.Date
		if from == 0 || answer.FromNow {
			from = now.Unix() // RFC 9110 section 6.6.1
		}
		f.Lifetime = seconds(answer.Expires - from)
	default:
		f.Lifetime = rules.implied(f, answer, now)
		return false
	}
	if answer.FromNow {
		f.Lifetime += f.Age
	}
	return true
}

// implied is the lifetime of an answer that does not name one: a part of the time since its last
// change (section 4.2.2), or else the operator's, from now on.
func (rules *Rules) implied(f *Freshness, answer *Response, now time.Time) time.Duration {
	may := answer.Public || heuristic(answer.Status)
	if rules.Heuristic > 0 && may && answer.LastModified != 0 {
		since := seconds(cmp.Or(answer.Date, now.Unix()) - answer.LastModified)
		if d := since / 100 * time.Duration(rules.Heuristic); d > 0 {
			return min(d, rules.HeuristicMax)
		}
	}
	if rules.TTL > 0 {
		return f.Age + rules.TTL
	}
	return 0
}

// stale sets what the answer may be used for when it is stale. must-revalidate and its kin forbid
// it (section 4.2.4). s-maxage forbids it as well, but an answer that has s-maxage beside the
// directives of RFC 5861 is meant to be used by them. What the operator adds is for answers that
// were fresh: others are asked for each time, and may be for one client.
func (rules *Rules) stale(f *Freshness, answer *Response) {
	if answer.NoCache || answer.MustRevalidate || answer.ProxyRevalidate {
		return
	}
	f.StaleWhileRevalidate = max(0, answer.StaleWhileRevalidate)
	f.StaleIfError = max(0, answer.StaleIfError)
	if f.Lifetime <= f.Age || f.Strict {
		return
	}
	if answer.StaleWhileRevalidate == unset {
		f.StaleWhileRevalidate = rules.StaleWhileRevalidate
	}
	if answer.StaleIfError == unset {
		f.StaleIfError = rules.StaleIfError
	}
}

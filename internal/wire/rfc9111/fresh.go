package rfc9111

import "time"

// Freshness is what remains of an answer's and an operator's rules once an answer is kept. It is
// enough for each later decision, and small, since each kept answer has one.
type Freshness struct {
	Received int64 // Unix nanoseconds: when the head of the answer came, or that of its last 304

	Age                  time.Duration // at that time (RFC 9111 section 4.2.3)
	Lifetime             time.Duration // it is fresh while it is younger
	StaleWhileRevalidate time.Duration // for so long after that; 0: not
	StaleIfError         time.Duration // for so long after that; 0: not

	Validate bool // no-cache: it is never sent without a validation
	Strict   bool // must-revalidate and its kin: it is never sent stale because the client accepts it
}

// Use says what may be done with an answer that is kept.
type Use uint8

const (
	// UseFresh: send it.
	UseFresh Use = iota
	// UseStale: send it, though it is stale; the client accepts that.
	UseStale
	// UseStaleWhileRevalidate: send it, and validate it in the background (RFC 5861 section 3).
	UseStaleWhileRevalidate
	// UseAfterValidation: validate it first, by a conditional request to the upstream.
	UseAfterValidation
	// UseGatewayTimeout: send 504, since the client accepts a kept answer alone (only-if-cached), and
	// this one may not be sent (RFC 9111 section 5.2.1.7).
	UseGatewayTimeout
)

// Now returns the age of the answer (section 4.2.3), as its Age field has it in whole seconds. A
// clock that was put back makes no answer younger than it was.
func (f *Freshness) Now(now time.Time) time.Duration {
	return f.Age + max(0, time.Duration(now.UnixNano()-f.Received))
}

// TTL returns for how long the answer is still fresh; it is negative for a stale one.
func (f *Freshness) TTL(now time.Time) time.Duration { return f.Lifetime - f.Now(now) }

// Use decides about a request whose method and variant fit (section 4).
func (f *Freshness) Use(ask *Request, now time.Time) Use {
	age := f.Now(now)
	stale := age - f.Lifetime // of a fresh answer, negative
	switch {
	case f.Validate || ask.NoCache || ask.MaxAge == 0 || ask.MaxAge != unset && age > ask.MaxAge:
	case stale < 0 && -stale >= ask.MinFresh:
		return UseFresh
	case stale < 0 || ask.MinFresh > 0:
	case stale < f.StaleWhileRevalidate:
		return UseStaleWhileRevalidate
	case !f.Strict && ask.MaxStale != unset && stale <= ask.MaxStale:
		return UseStale
	}
	if ask.OnlyIfCached {
		return UseGatewayTimeout
	}
	return UseAfterValidation
}

// IfError reports whether a request may be answered stale, since the upstream has failed or
// answered with 500, 502, 503 or 504 (RFC 5861 section 4, RFC 9111 section 4.2.4). A client that
// has asked for a validation gets the error.
func (f *Freshness) IfError(ask *Request, now time.Time) bool {
	return !f.Validate && !ask.NoCache && ask.MaxAge == unset && f.TTL(now) > -f.StaleIfError
}

// Failed reports whether a status is one of those for which IfError is meant.
func Failed(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}

// Expire makes the answer stale: a soft purge. From now on it may be sent only while it is
// validated, or where the upstream fails, as its own limits say.
func (f *Freshness) Expire(now time.Time) { f.Lifetime = min(f.Lifetime, f.Now(now)) }

// Package rfc9111 decides what a shared HTTP cache may keep, for how long, and for whom. Its name
// is the RFC; RFC 5861 (stale answers), RFC 9211 (Cache-Status) and RFC 9213 (targeted fields) are
// in it, too. It consists of pure functions: it does no I/O, has no clock (the caller passes the
// time) and no state, so any goroutine may call anything. What a hit needs allocates nothing.
//
// A cache uses it in this order:
//
//	ask := rfc9111.ReadRequest(method, fields)    // what the request says
//	kept.Use(&ask, now)                           // of an answer that is kept: may it be sent?
//	answer := rfc9111.ReadResponse(status, all)   // what the upstream's answer says
//	kept, why := rules.Store(&ask, &answer, now)  // may it be kept, and how long is it fresh?
//
//	directive.go   Cache-Control taken apart; delta-seconds
//	request.go     Request: what a request asks of caches
//	response.go    Response: what an answer says to caches
//	targeted.go    CDN-Cache-Control, a dictionary of structured fields; Surrogate-Control;
//	               X-Accel-Expires
//	store.go       Rules.Store: may an answer be kept, and why not
//	fresh.go       Freshness: age, reuse, what may be sent stale
//	vary.go        Vary: which requests an answer is for
//	fields.go      fields that speak to caches; which are kept, and what a 304 changes
//	invalidate.go  what an unsafe method makes invalid
//	status.go      Cache-Status
package rfc9111

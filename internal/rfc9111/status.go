package rfc9111

import "time"

// Forward is why a request went on to the upstream (RFC 9211 section 2.2).
type Forward uint8

const (
	NotForwarded Forward = iota
	ForwardBypass
	ForwardMethod
	ForwardURIMiss
	ForwardVaryMiss
	ForwardMiss
	ForwardRequest
	ForwardStale
	ForwardPartial
)

// A CacheStatus is what a cache has done with one request (RFC 9211).
type CacheStatus struct {
	Cache     string        // the name of the cache, a token
	Hit       bool          // sent from what was kept
	Forward   Forward       // else why not
	FwdStatus int           // the upstream's status; 0: there is none, or it is that of the answer
	TTL       time.Duration // how long the answer is still fresh; may be negative
	HasTTL    bool
	Stored    bool   // the answer was kept
	Collapsed bool   // it waited for another request's
	Key       string // what it is kept by, if that may be told; "" for not
	Detail    string // a token; "" for none
}

// Append appends the member of the list that is the field.
func (s *CacheStatus) Append(dst []byte) []byte { panic("soon") }

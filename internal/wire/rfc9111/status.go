package rfc9111

import (
	"strconv"
	"time"
)

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

var forwards = [...]string{"", "bypass", "method", "uri-miss", "vary-miss", "miss", "request",
	"stale", "partial"}

// String returns the token of the field.
func (f Forward) String() string { return forwards[f] }

// Append appends the member of the list that is the field.
func (s *CacheStatus) Append(dst []byte) []byte {
	dst = append(dst, s.Cache...)
	switch {
	case s.Hit:
		dst = append(dst, "; hit"...)
	case s.Forward != NotForwarded:
		dst = append(append(dst, "; fwd="...), s.Forward.String()...)
		if s.FwdStatus != 0 {
			dst = strconv.AppendInt(append(dst, "; fwd-status="...), int64(s.FwdStatus), 10)
		}
	}
	if s.Stored {
		dst = append(dst, "; stored"...)
	}
	if s.Collapsed {
		dst = append(dst, "; collapsed"...)
	}
	if s.HasTTL {
		dst = strconv.AppendInt(append(dst, "; ttl="...), int64(floor(s.TTL)), 10)
	}
	if s.Key != "" {
		dst = appendString(append(dst, "; key="...), s.Key)
	}
	if s.Detail != "" {
		dst = append(append(dst, "; detail="...), s.Detail...)
	}
	return dst
}

// floor returns whole seconds, towards the past: what is stale for a moment is not fresh.
func floor(d time.Duration) time.Duration {
	n := d / time.Second
	if d < 0 && d%time.Second != 0 {
		n--
	}
	return n
}

// appendString appends a string of structured fields (RFC 9651 section 4.1.6). What it cannot have
// in it, anything but printable ASCII, becomes a "?".
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c > 0x7e:
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}

package rfc9111

import (
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Fields that caches set, or that speak to caches and not to browsers.
const (
	FieldAge                 = "Age"                  // RFC 9111 section 5.1
	FieldCacheStatus         = "Cache-Status"         // RFC 9211
	FieldCDNCacheControl     = "CDN-Cache-Control"    // RFC 9213
	FieldSurrogateCapability = "Surrogate-Capability" // W3C's Note Edge Architecture, of 2001
	FieldSurrogateControl    = "Surrogate-Control"    // the same
	FieldXAccelExpires       = "X-Accel-Expires"      // nginx
	FieldCacheTag            = "Cache-Tag"            // Cloudflare, Akamai
	FieldSurrogateKey        = "Surrogate-Key"        // Fastly
)

// ForThisCache are the fields of an answer that are for the server's own cache: it reads them, does
// not keep them with the answer, and no client gets them.
var ForThisCache = [...]string{FieldXAccelExpires, FieldCacheTag, FieldSurrogateKey}

// ForThisCacheNames is the set of ForThisCache.
var ForThisCacheNames = http1.NamesOf(ForThisCache[:]...)

// IsForThisCache reports whether a field is one of ForThisCache.
func IsForThisCache(name string) bool {
	return http1.MayHave(ForThisCacheNames, name) && oneOf(name, ForThisCache[:])
}

// TagSeparator returns what stands between the tags in a field whose value is tags, by which
// answers are purged; "" for another field.
func TagSeparator(name string) string {
	switch {
	case !http1.MayHave(ForThisCacheNames, name):
	case ascii.EqualFold(name, FieldCacheTag):
		return ","
	case ascii.EqualFold(name, FieldSurrogateKey):
		return " "
	}
	return ""
}

func oneOf(name string, names []string) bool {
	for _, n := range names {
		if ascii.EqualFold(name, n) {
			return true
		}
	}
	return false
}

// Keeps reports whether a field of the answer is kept with it (RFC 9111 section 3.1). Those of one
// connection are not, those that private, no-cache or Connection name, those that the server makes
// anew for each answer (the framing, Age and Cache-Status), and those of ForThisCache. Set-Cookie
// is left to Rules.
func (r *Response) Keeps(name string) bool {
	if http1.MayHave(unkept, name) && (oneOf(name, remade[:]) || IsForThisCache(name) ||
		http1.HopByHop(name) || http1.Framing(name)) {
		return false
	}
	return !r.omits(name)
}

var (
	remade = [...]string{FieldAge, FieldCacheStatus, "Trailer"}

	// unkept has the names of which Keeps reports false for all answers.
	unkept = http1.NamesOf(remade[:]...) | ForThisCacheNames | http1.Steering
)

// Updates reports whether a field of r, which is a 304, replaces that of the kept answer (section
// 3.2). Those that describe the content as it was sent stay: it is what is kept. An entity tag that
// Validates accepts is the same, or the strong one says more.
func (r *Response) Updates(name string) bool {
	return !oneOf(name, ofContent[:]) && r.Keeps(name)
}

var ofContent = [...]string{"ETag", "Content-Length", "Content-Encoding", "Content-Range",
	"Content-MD5", "Content-Digest", "Digest", "Repr-Digest"}

// Validates reports whether r, which is a 304, is about the kept answer with these validators
// (section 4.3.4). etag and lastModified are the values of the kept answer's fields, "" and 0 if
// there are none. If it is not, the upstream means another state than ours: the caller asks again,
// without conditions.
func (r *Response) Validates(etag string, lastModified int64) bool {
	switch {
	case r.ETag != "" && r.ETag[0] == '"':
		return etag == r.ETag
	case r.ETag != "" && etag != "":
		return http1.MatchETag(r.ETag, etag, true)
	case r.LastModified != 0 && lastModified != 0:
		return r.LastModified == lastModified
	}
	return true
}

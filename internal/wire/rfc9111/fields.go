package rfc9111

import (
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Keeps reports whether a field of the answer is kept with it (RFC 9111 section 3.1). Those of one
// connection are not, those that private, no-cache or Connection name, and those that the server
// makes anew for each answer: the framing, Age and Cache-Status. X-Accel-Expires is for this server
// alone. Set-Cookie is left to Rules.
func (r *Response) Keeps(name string) bool {
	if !http1.MayHave(unkept, name) {
		return !r.without(name)
	}
	for _, f := range [...]string{"Age", "Trailer", accelExpires, "Cache-Status"} {
		if ascii.EqualFold(name, f) {
			return false
		}
	}
	return !http1.HopByHop(name) && !http1.Framing(name) && !r.without(name)
}

// unkept has the names of which Keeps reports false for all answers.
var unkept = http1.NamesOf("Age", "Trailer", accelExpires, "Cache-Status") | http1.Steering

// Updates reports whether a field of r, which is a 304, replaces that of the kept answer (section
// 3.2). Those that describe the content as it was sent stay: it is what is kept. An entity tag that
// Validates accepts is the same, or the strong one says more.
func (r *Response) Updates(name string) bool {
	for _, f := range [...]string{"ETag", "Content-Length", "Content-Encoding", "Content-Range",
		"Content-MD5", "Content-Digest", "Digest", "Repr-Digest"} {
		if ascii.EqualFold(name, f) {
			return false
		}
	}
	return r.Keeps(name)
}

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

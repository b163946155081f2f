package conn

import (
	"strconv"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// Cache says for how long caches between the server and its clients may keep the answer and give it
// to others: those that obey CDN-Cache-Control (RFC 9213), such as the layer cache. Clients'
// own caches obey Cache-Control. A fraction of a second counts as a second; 0 or less means that
// the answer is not kept. tags are what the answer is about, to purge it by: names without white
// space and commas.
func (w *Response) Cache(ttl time.Duration, tags ...string) {
	h := w.Header()
	if ttl <= 0 {
		h.Set(rfc9111.FieldCDNCacheControl, "no-store")
		return
	}
	h.Set(rfc9111.FieldCDNCacheControl,
		"max-age="+strconv.FormatInt(int64((ttl+time.Second-1)/time.Second), 10))
	for _, tag := range tags {
		h.Add(rfc9111.FieldCacheTag, tag)
	}
}

// TellsCaches reports whether there may be a field that says something to caches (RFC 9111
// section 5.2.1, RFC 9110 section 13), or that would change the protocol or names others:
// Cache-Control, Pragma, Authorization, Range, those of conditions, Upgrade and Connection. If not,
// it costs no look at each.
func (r RequestLayer) TellsCaches() bool { return r.listed || r.head.MayHaveSome(toCaches) }

var toCaches = http1.NamesOf("Cache-Control", "Pragma", "Authorization", "Range", "If-Match",
	"If-Unmodified-Since", "If-None-Match", "If-Modified-Since", "Upgrade", "Connection")

// AppendOverrides appends the fields of a request that no specification has an answer depend on,
// but by which applications choose what they answer, or make links: X-Forwarded-Host,
// X-Original-URL, X-HTTP-Method-Override and their kin. A cache whose key lacks them would give to
// others what one client has made of them. Each is a line; a request without any has none.
func (r RequestLayer) AppendOverrides(dst []byte) []byte {
	if r.listed {
		for i := range r.header.fields {
			if f := &r.header.fields[i]; isOverride(f.Name, r.proxied) {
				dst = appendOverride(dst, f.Name, f.Value)
			}
		}
		return dst
	}
	if !r.head.MayHaveSome(overrideSet) {
		return dst
	}
	for i := range r.head.Fields {
		f := &r.head.Fields[i]
		if name := f.Name.Of(r.raw); isOverride(name, r.proxied) {
			dst = appendOverride(dst, name, f.Value.Of(r.raw))
		}
	}
	return dst
}

func appendOverride[T string | []byte](dst []byte, name, value T) []byte {
	dst = append(dst, '\n')
	for i := range len(name) {
		dst = append(dst, ascii.Lower(name[i]))
	}
	return append(append(dst, ':'), value...)
}

// isOverride reports whether a name is one of AppendOverrides's. To CGI and its kin, "_" is "-".
// Forwarded names the client, too; of a trusted proxy, the host in it is the request's.
func isOverride[T string | []byte](name T, proxied bool) bool {
	if len(name) < len("X-Host") {
		return false
	}
	switch name[0] | 0x20 {
	case 'x':
		return (name[1] == '-' || name[1] == '_') && oneOf(name, overrides[:])
	case 'f', 'c':
		return oneOf(name, moreOverrides[:]) ||
			!proxied && len(name) == len("Forwarded") && ascii.EqualFold(name, "Forwarded")
	}
	return false
}

func oneOf[T string | []byte](name T, names []string) bool {
	for _, s := range names {
		if len(s) == len(name) && http1.SameVariable(name, s) {
			return true
		}
	}
	return false
}

var (
	overrides = [...]string{"X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Protocol",
		"X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-Port", "X-Forwarded-Prefix",
		"X-Forwarded-Path", "X-Forwarded-Server", "X-Forwarded-Uri", "X-Forwarded-Url", "X-Host",
		"X-HTTP-Host-Override", "X-Original-Host", "X-Original-URL", "X-Original-URI", "X-Rewrite-URL",
		"X-HTTP-Method", "X-HTTP-Method-Override", "X-Method-Override", "X-Script-Name", "X-URL-Scheme",
		"X-Arr-Ssl", "X-Invoke-Path"}

	// Those that others than applications of X- have thought of: IIS, Cloudflare, CloudFront.
	moreOverrides = [...]string{"Front-End-Https", "CF-Visitor", "CloudFront-Forwarded-Proto"}

	// All names that isOverride reports. One that is written with "_" has the same length and first
	// letter.
	overrideSet = http1.NamesOf(overrides[:]...) | http1.NamesOf(moreOverrides[:]...) |
		http1.NamesOf("Forwarded")
)

package compression

import (
	"net/http"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/wire/http1"
)

// A body that was encoded is not the same bytes, so its entity tag has to be another one (RFC 9110
// section 8.8.3.3): the handler's with the coding behind it, `"v7-gzip"` for `"v7"`. A weak one
// would do as well for If-None-Match, but never fulfils If-Match. A weak tag stays as it is.
//
// The maker of the tag does not know it in that form. So conditions of requests get both forms: a
// handler, the server, or an application behind it then finds its own tag.

// tagged returns a strong entity tag for the encoded body.
func tagged(tag string, c coding.Coding) string { return tag[:len(tag)-1] + "-" + c.String() + `"` }

func strong(tag string) bool { return strings.HasPrefix(tag, `"`) && http1.ValidETag(tag) }

var seenConditions [2]byte // of RequestLayer.Once, for each field

// addOriginalTags adds the handler's tags to those of encoded bodies, in the conditions of a
// request. In If-None-Match it does so only for codings that the client accepts now: a cache sends
// the tags of all its bodies, and must not keep one that the client would not get.
func (c compressor) addOriginalTags(req *conn.Request) {
	if _, there := req.Layer().HeaderView("If-None-Match"); there {
		c.untagField(req, "If-None-Match", &seenConditions[0])
	}
	if _, there := req.Layer().HeaderView("If-Match"); there {
		c.untagField(req, "If-Match", &seenConditions[1])
	}
}

// untagField is untag for the fields of one name.
func (c compressor) untagField(req *conn.Request, name string, once *byte) {
	var all [coding.Kinds]coding.Coding
	codings := coding.All
	if m := req.Method(); name == "If-None-Match" && (m == http.MethodGet || m == http.MethodHead) {
		codings = Rank(req, all[:0], c.Order)
	}
	var own []string
	lists := req.Header().Values(name)
	for _, list := range lists {
		text := list
		for _, coded := range codings {
			text = strings.ReplaceAll(text, "-"+coded.String()+`"`, `"`)
		}
		if text != list {
			own = append(own, text)
		}
	}
	if own != nil && req.Layer().Once(once) {
		req.Layer().ReplaceHeader(name, append(own, lists...)...)
	}
}

// notModified completes a 304, which has the fields that the 200 would have (RFC 9110 section
// 15.4.5): with the tag of the encoded body, if that is what the client has and would get.
func (c compressor) notModified(req *conn.Request, resp *conn.Response) {
	h := resp.Header()
	tag := h.Get("ETag")
	if !strong(tag) {
		return
	}
	lists := req.Header().Values("If-None-Match")
	var space [coding.Kinds]coding.Coding
	for _, coded := range Rank(req, space[:0], c.Order) {
		for _, list := range lists {
			if own := tagged(tag, coded); ascii.TrimOWS(list) != "*" && http1.MatchETag(list, own, false) {
				h.Set("ETag", own)
				return
			}
		}
	}
}

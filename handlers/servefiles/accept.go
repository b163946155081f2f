package servefiles

import (
	"strconv"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
)

// quality returns how much a client wants a media type, from 0 to 1, and whether it names it. The
// most specific range of the Accept fields counts (RFC 9110 section 12.5.1). Without such a field
// the client takes everything.
func quality(req *conn.Request, mediaType string) (q float64, named bool) {
	if !has(req, "Accept") {
		return 1, false
	}
	major, _, _ := strings.Cut(mediaType, "/")
	best := 0 // how specific the range is that q is of
	for _, list := range req.Header().Values("Accept") {
		ascii.EachElement(list, func(element string) bool {
			of, params, _ := strings.Cut(element, ";")
			of = ascii.TrimOWS(of)
			specific := 0
			switch {
			case ascii.EqualFold(of, mediaType):
				specific = 3
			case ascii.EqualFold(of, major+"/*"):
				specific = 2
			case of == "*/*":
				specific = 1
			}
			if specific > best {
				best, q = specific, weight(params)
			}
			return true
		})
	}
	return q, best == 3
}

// weight returns the parameter q of a media range, 1 without one, and 0 for one that is no number.
func weight(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(ascii.TrimOWS(p), "=")
		if ascii.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(value, 64)
			if err != nil || !(q >= 0 && q <= 1) {
				return 0
			}
			return q
		}
	}
	return 1
}

// wantsPage reports whether the client asks for a page, and so names its type: for scripts, images
// and calls of an API browsers take everything, and would take a page for what they have asked for.
func wantsPage(req *conn.Request) bool {
	q, named := quality(req, "text/html")
	return named && q > 0
}

// wantsJSON reports whether the client prefers JSON to a page. If it wants both as much, a type
// that it names comes before one that it only takes.
func wantsJSON(req *conn.Request) bool {
	html, namesHTML := quality(req, "text/html")
	json, namesJSON := quality(req, "application/json")
	return json > html || json == html && json > 0 && namesJSON && !namesHTML
}

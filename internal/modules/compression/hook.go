package compression

import (
	"io"
	"net/http"
	"slices"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Middleware compresses by p; nil: layers further out do not compress either. The innermost
// decides.
func Middleware(p *coding.Policy) handlers.Middleware {
	return func(next conn.Handler) conn.Handler {
		if p == nil {
			return func(req *conn.Request, resp *conn.Response) int {
				resp.Layer().BeforeHead(leaveUnchanged)
				return next(req, resp)
			}
		}
		c := compressor{p}
		var hook conn.HeadHook = func(req *conn.Request, resp *conn.Response, status int) {
			c.beforeHead(req, resp, status)
		}
		return func(req *conn.Request, resp *conn.Response) int {
			c.addOriginalTags(req)
			resp.Layer().BeforeHead(hook)
			return next(req, resp)
		}
	}
}

// leaveUnchanged sends the body without a coding.
func leaveUnchanged(_ *conn.Request, resp *conn.Response, _ int) { resp.Layer().SetEncoder(nil) }

type compressor struct{ *coding.Policy }

// beforeHead decides about one response. Most small ones cost no more than this.
func (c compressor) beforeHead(req *conn.Request, resp *conn.Response, status int) {
	if c.tooSmall(resp) && status != http.StatusNotModified && status != http.StatusPartialContent &&
		!resp.Header().Has("Content-Encoding") {
		resp.Layer().SetEncoder(nil)
	} else {
		c.decide(req, resp, status)
	}
}

// tooSmall reports whether the body is too short for compression.
func (c compressor) tooSmall(resp *conn.Response) bool {
	n := resp.Layer().BodySize()
	return 0 <= n && n < max(c.MinSize, 1)
}

// decide is beforeHead for a response that may be compressed, or may need other fields.
func (c compressor) decide(req *conn.Request, resp *conn.Response, status int) {
	// A rule of the site sets its fields behind what is further in: it may have replaced the Vary of
	// a precompressed file, or of a route's compressor that has decided already. A shared cache would
	// then give the encoded body to clients that cannot read it. A 304 changes what the cache has.
	if h := resp.Header(); status == http.StatusNotModified ||
		h.Has("Content-Encoding") && c.varies(resp.ContentType()) {
		h.Vary("Accept-Encoding")
	}
	if resp.Layer().EncoderSet() {
		return
	}
	var e conn.Encoder
	switch status {
	case http.StatusNotModified:
		c.notModified(req, resp)
	case http.StatusPartialContent:
		c.part(resp)
	case http.StatusNoContent, http.StatusResetContent, http.StatusSwitchingProtocols:
	default:
		if c.worthwhile(resp) && !mustNotEncode(resp.Header()) {
			e = c.encoder(req, resp)
		}
	}
	resp.Layer().SetEncoder(e)
}

// worthwhile checks the type only if the size is large enough.
func (c compressor) worthwhile(resp *conn.Response) bool {
	return !c.tooSmall(resp) && c.Types.Match(resp.ContentType())
}

// fixing are fields of which one keeps a body as it is, and Cache-Control is another one.
var (
	preventing = [...]string{"Digest", "Content-MD5", "Repr-Digest", "Content-Range", "Content-Digest",
		"Content-Encoding"}
	fixingSet = http1.NamesOf(preventing[:]...) | http1.NamesOf("Cache-Control")
)

// mustNotEncode reports whether the body must not be encoded: it is encoded already, or a part; a
// proxy must not transform it (RFC 9111 section 5.2.2.6); or a field has its checksum.
func mustNotEncode(h *conn.Header) bool {
	for name, value := range h.All() {
		if http1.MayHave(fixingSet, name) && (slices.ContainsFunc(preventing[:], func(f string) bool {
			return ascii.EqualFold(name, f)
		}) || ascii.EqualFold(name, "Cache-Control") && ascii.HasToken(value, "no-transform")) {
			return true
		}
	}
	return false
}

// encoder returns the encoder for a response, or nil if the client gets the body without a coding.
// It sets the fields about the coding.
func (c compressor) encoder(req *conn.Request, resp *conn.Response) conn.Encoder {
	h := resp.Header()
	h.Vary("Accept-Encoding")
	which := Choose(req.Layer(), c.Order, resp.ContentType())
	if which == coding.Identity {
		return nil
	}
	var e conn.Encoder = head{}
	if !resp.Layer().UseEncoded(which.String()) && req.Method() != http.MethodHead {
		found := coding.NewEncoder(which, c.Level)
		if found == nil {
			return nil
		}
		e = found
	}
	h.Set("Content-Encoding", which.String())
	// Ranges are of the body without a coding, and a client that has a part of the encoded one would
	// join pieces of both.
	h.Del("Accept-Ranges")
	h.Del("Content-Length")
	if tag := h.Get("ETag"); strong(tag) {
		h.Set("ETag", tagged(tag, which))
	}
	return e
}

// varies reports whether a body of that type, or the whole of which it is a part, may go out in
// several codings. Where it goes out in several parts, they have its type, and that is not looked
// at: a field too many does no harm.
func (c compressor) varies(contentType string) bool {
	return ascii.HasPrefixFold(contentType, "multipart/byteranges") || c.Types.Match(contentType)
}

// part completes a 206, which has the fields that the 200 would have (RFC 9110 section 15.3.7). The
// length of all is not looked at.
func (c compressor) part(resp *conn.Response) {
	if c.varies(resp.ContentType()) {
		resp.Header().Vary("Accept-Encoding")
	}
}

// Rank appends to dst those of the given codings that the client wants, best first.
func Rank(req *conn.Request, dst, order []coding.Coding) []coding.Coding {
	a, ok := acceptOf(req.Layer())
	if !ok {
		return dst
	}
	return a.Rank(dst, order)
}

// acceptOf reads Accept-Encoding. ok is false without it.
func acceptOf(req RequestHeader) (a coding.Accept, ok bool) {
	list, next := req.HeaderViewFrom("Accept-Encoding", 0)
	for ok = next > 0; next > 0; list, next = req.HeaderViewFrom("Accept-Encoding", next) {
		a.Add(list)
	}
	return a, ok
}

// RequestHeader is the part of a request that decides the coding of its answer. A conn.RequestLayer
// is one.
type RequestHeader interface {
	HeaderViewFrom(name string, from int) (value []byte, next int)
	Proto() string
}

// Choose returns the coding in which the client gets a body of that type, by the order of a Policy;
// Identity: without one. It allocates nothing.
func Choose(req RequestHeader, order []coding.Coding, contentType string) coding.Coding {
	a, ok := acceptOf(req)
	if !ok {
		return coding.Identity
	}
	var space [coding.Kinds]coding.Coding
	ranked := a.Rank(space[:0], order)
	switch {
	case len(ranked) == 0, req.Proto() == "HTTP/1.0": // the body would end with the connection
		return coding.Identity
	case !isEventStream(contentType):
		return ranked[0]
	case slices.Contains(ranked, coding.Gzip): // only gzip needs no memory during a wait
		return coding.Gzip
	}
	return coding.Identity
}

func isEventStream(contentType string) bool {
	return ascii.HasPrefixFold(contentType, coding.EventStream)
}

// head replaces the encoder in the answer to HEAD, which has no body.
type head struct{}

func (head) Begin(io.Writer)             {}
func (head) Write(p []byte) (int, error) { return len(p), nil }
func (head) Flush() error                { return nil }
func (head) Rest()                       {}
func (head) Close() error                { return nil }
func (head) Release()                    {}

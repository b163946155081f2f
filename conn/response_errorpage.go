package conn

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// ErrorPage answers a request in place of the server's own error page. status goes out whatever its
// handlers say, see ResponseLayer.PageStatus; it may set a body and header fields. It reports
// whether it has set a page. It runs on the request's thread, as a handler does, and may wait.
type ErrorPage func(req *Request, resp *Response, status int) bool

// OnError lets p make the page of an answer with a status of 400 or more and without a body, unless
// it is another server's (Relay). A handler that has panicked has such an answer, too. What was set
// last is asked first; if no p has a page, the server's own is sent. An answer gets one page: an
// error in the making of a page has none. Requests that reach no handler, because they cannot be
// parsed, have the server's own page.
func (w ResponseLayer) OnError(p ErrorPage) {
	w.live()
	if w.phase == open {
		w.pages = append(w.pages, p)
	}
}

// DropBody drops the body and the effect of Relay, and keeps the header. Once the head has gone
// out, it does nothing.
func (w ResponseLayer) DropBody() {
	w.live()
	if w.phase == open {
		w.discard()
		w.size, w.manner, w.early, w.reason = 0, native, 0, ""
	}
}

// PageStatus lets the page that an ErrorPage is about to make go out with another status, if it is
// made.
func (w ResponseLayer) PageStatus(status int) {
	w.live()
	if w.forced != 0 {
		w.forced = status
	}
}

// wantsPage reports whether an error page may take the place of the answer.
func (w *Response) wantsPage(status int) bool {
	if status < 400 || w.manner != native {
		return false
	}
	if w.kind == gathered {
		return len(w.buf) == 0
	}
	return w.size == 0
}

// errorPage asks for a page in place of what the handler has answered with, and returns the status
// of the answer, whatever page there is. If there is none, the answer stays as it is. The page is
// that of the status that goes out, which need not be the handler's: see decideAnswer.
func (x *exchange) errorPage(w *Response, status int) int {
	if w.phase != open {
		return status
	}
	status, _, _ = w.decideAnswer(status)
	if !w.wantsPage(status) {
		return status
	}
	pages := w.pages
	w.pages = nil
	for _, p := range slices.Backward(pages) {
		before, made := slices.Clone(w.header.fields), false
		hooks, trailer, rate := len(w.hooks), w.trailer, x.via.setMaxRate(0)
		x.via.setMaxRate(rate)
		w.forced = status
		x.call(func(req *Request, _ *Response) int {
			made = p(req, w, status)
			return 0
		})
		if hasTakenOver(x.req.Thread) { // the page's handler has taken the connection over
			return status
		}
		final := w.forced
		if w.forced = 0; made || w.phase != open {
			w.paged = made
			return final
		}
		// A page that has failed leaves nothing behind: neither what its handler has set, nor what
		// the layers around that have.
		w.header = Header{fields: before}
		w.trailer = trailer
		x.via.setMaxRate(rate)
		w.Layer().DropHooks(hooks, 0)
	}
	return status
}

// notOfAnother are the fields of a request that are not for another handler that is called on the
// way: those about the file or the body that the client asked for or sent, and those that speak of
// the client's connection. That handler neither takes part in the connection (a page must not
// become a tunnel), nor may lose fields by what the client says of it (RFC 9110 section 7.6.1).
var notOfAnother = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
	"If-Range", "Range", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding",
	"Expect", "Connection", "Proxy-Connection", "Keep-Alive", "TE", "Trailer", "Upgrade"}

var namesNotOfAnother = http1.NamesOf(notOfAnother...)

func ofThisAlone(name string) bool {
	return http1.MayHave(namesNotOfAnother, name) && slices.ContainsFunc(notOfAnother,
		func(s string) bool { return ascii.EqualFold(name, s) })
}

// Instead calls h for another path, which must be a clean one, and returns what h returns. To h the
// request is a GET, or still a HEAD, of that target, without a query, a body, conditions, ranges
// and what is about the connection; all else is as it was. It is for error pages that a handler
// makes.
func (r RequestLayer) Instead(path string, resp *Response, h Handler) int {
	sub := new(Request)
	sub.alter(r.Request, []byte(path), http1.AppendPath(nil, []byte(path)), "", ofThisAlone)
	return r.instead(sub, resp, h)
}

// Forward calls h for another target, a path and maybe a query as Rewrite takes them, and returns
// what h returns. To h the request is a GET, or still a HEAD, without a body; its conditions and
// ranges are those of the client. It is for an application that names what is to be sent in place
// of its own answer. resp has nothing of that any more. The errors are those of Rewrite, and
// ErrComplete if the head has gone out. A request that is forwarded counts as rewritten.
func (r RequestLayer) Forward(target string, resp *Response, h Handler) (status int, err error) {
	path, raw, query, err := r.target(target)
	if err != nil {
		return 0, err
	}
	if resp.phase != open {
		return 0, ErrComplete
	}
	sub := new(Request)
	sub.alter(r.Request, path, http1.Sent([]byte(raw)), query, ofBodyOrConnection)
	sub.rewrites = r.rewrites + 1
	r.Elsewhere()
	return r.instead(sub, resp, h), nil
}

// Elsewhere notes that the application has named something else to be sent than its own answer,
// such as a file; see SentHead.Forwarded.
func (r RequestLayer) Elsewhere() {
	if e := r.x.background; e != nil {
		e.forwarded = true
	}
	if a := r.x.resp.tap; a != nil {
		a.forwarded = true
	}
}

func (r *Request) instead(sub *Request, resp *Response, h Handler) int {
	was, t := resp.req, r.Thread
	sub.body.none(r.x)
	resp.req = sub
	defer func() {
		resp.req = was
		if !t.Layer().HasCalls() { // else it is left to what runs off the loop, as the exchange will be
			sub.Thread = nil
		}
	}()
	return h(sub, resp)
}

// ofBodyOrConnection is ofThisAlone without conditions and ranges.
func ofBodyOrConnection(name string) bool {
	return ofThisAlone(name) && !ascii.HasPrefixFold(name, "If-") && !ascii.EqualFold(name, "Range")
}

// alter makes r, which is new, the request for a clean path, the same as it stands in a target, and
// a query, that a handler gets in place of of: a GET, or still a HEAD, without a body, and without
// the fields that drop tells.
func (r *Request) alter(of *Request, path, raw []byte, query string, drop func(name string) bool) {
	r.internal = true
	r.Thread, r.x, r.head = of.Thread, of.x, of.head
	if r.head.Method != http1.HEAD {
		r.head.Method = http1.GET
	}
	r.head.ContentLength, r.head.Chunked = -1, false
	r.raw = of.raw
	r.setTarget(path, raw, query)
	r.head.Fields = slices.DeleteFunc(slices.Clone(of.head.Fields), func(f http1.Field) bool {
		return drop(string(f.Name.Of(of.raw)))
	})
	if r.listed = of.listed; r.listed { // what handlers have changed stays changed
		r.header.fields = slices.DeleteFunc(slices.Clone(of.header.fields), func(f Field) bool {
			return drop(f.Name)
		})
	}
	r.prefix = of.prefix
	r.user, r.authType, r.replaced = of.user, of.authType, slices.Clip(of.replaced)
	r.idView = of.Layer().IDView()
	r.counter, r.log = of.counter, of.log
	r.values = slices.DeleteFunc(slices.Clone(of.values), value.once)
	r.proxied, r.scheme, r.client = of.proxied, of.scheme, of.client
}

// setTarget gives r, which is new, a clean path, the same as it stands in a target, and a query;
// without a query, no question mark.
func (r *Request) setTarget(path, raw []byte, query string) {
	r.path, r.head.Asterisk = path, false
	// Modules read the target, too: REQUEST_URI is made of it, and a front controller answers that.
	from := len(r.raw)
	r.raw = append(slices.Clip(r.raw), raw...) // a copy: the next request lies behind it
	r.head.Path, r.head.Query = http1.Span{Start: uint32(from), End: uint32(len(r.raw))}, http1.Span{}
	if query != "" {
		r.raw = append(append(r.raw, '?'), query...)
		r.head.Query = http1.Span{Start: r.head.Path.End + 1, End: uint32(len(r.raw))}
	}
	r.head.Target = http1.Span{Start: uint32(from), End: uint32(len(r.raw))}
}

var statusLines = func() (lines [600][]byte) {
	for code := range lines {
		if text := http.StatusText(code); text != "" {
			lines[code] = []byte("HTTP/1.1 " + strconv.Itoa(code) + " " + text + "\r\n")
		}
	}
	return lines
}()

// appendStatusLine appends a status line. It says HTTP/1.1 whatever the client speaks (RFC 9110
// section 6.2: a server sends its own version). An empty reason stands for the usual one.
func appendStatusLine(b []byte, status int, reason string) []byte {
	if reason == "" && status < len(statusLines) && statusLines[status] != nil {
		return append(b, statusLines[status]...)
	}
	return appendOddStatusLine(b, status, reason)
}

// appendOddStatusLine appends a status line that is not among statusLines.
//
//go:noinline
func appendOddStatusLine(b []byte, status int, reason string) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ') // not optional (RFC 9112 section 4)
	return append(append(b, reason...), "\r\n"...)
}

// usual reports whether reason is the one that an empty reason stands for.
func usual(status int, reason string) bool {
	if uint(status) >= uint(len(statusLines)) || statusLines[status] == nil {
		return false
	}
	line := statusLines[status]
	return string(line[len("HTTP/1.1 200 "):len(line)-len("\r\n")]) == reason
}

// appendErrorPage appends the page that a client sees of an error: the error's name, and nothing of
// the server's internals.
func appendErrorPage(b []byte, status int) []byte {
	title := strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		title += " " + text
	}
	b = append(b,
		"<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"+
			"<meta name=\"viewport\" content=\"width=device-width\">"+
			"<meta name=\"color-scheme\" content=\"light dark\">\n<title>"...)
	b = append(b, title...)
	b = append(b, "</title>\n<h1>"...)
	b = append(b, title...)
	return append(b, "</h1>\n</html>\n"...)
}

package conn

import (
	"net/http"

	"github.com/lwango/lwango/internal/http1"
)

// Inform sends an interim response at once: a status of 1xx, but not 101, which is a final one. It
// does nothing if the head of the response has gone out, or if the client speaks HTTP/1.0, which
// has no interim responses (RFC 9110 section 15.2). Fields that are not valid, or that frame a
// message, are left out. The error is that of writing; header may be nil.
func (w *Response) Inform(status int, header *Header) error {
	x := w.x
	if w.phase != open || w.asked || x.req.head.Minor == 0 || status < 100 || status > 199 || status == 101 {
		return nil
	}
	if status == http.StatusContinue {
		x.req.body.ask = false
	}
	x.out = appendStatusLine(x.out, status, "")
	if header != nil {
		for _, f := range header.fields {
			// These two would be taken for the final response's.
			if http1.Framing(f.Name) || !http1.ValidToken(f.Name) ||
				!http1.ValidFieldValue(f.Value) {
				continue
			}
			x.out = http1.AppendField(x.out, f.Name, f.Value)
		}
	}
	x.out = append(x.out, "\r\n"...)
	return x.flush()
}

// AddTrailer adds a field that is sent behind the body, if that goes out in chunks: the client
// speaks HTTP/1.1, the response is streamed, and Content-Length is not set. Otherwise the field is
// dropped, as one is that is not valid, or that a client needs before the body, such as Content-Type
// or Set-Cookie (RFC 9110 section 6.5.1).
func (w *Response) AddTrailer(name, value string) {
	if (w.phase == open || w.phase == streamed) && !tooLate(name) && http1.ValidToken(name) &&
		http1.ValidFieldValue(value) {
		w.trailer = append(w.trailer, Field{name, value})
	}
}

// KeepTrailer lets Trailer return the trailer section of a chunked body. It must be called before
// the first Read.
func (b *Body) KeepTrailer() {
	if b.chunked {
		b.chunks.KeepTrailer()
	}
}

// Trailer calls f for each field behind a chunked body that was read to its end (see KeepTrailer),
// except those that would be needed before the body, such as Host or Authorization (RFC 9110 section
// 6.5.1), and those that the server has replaced in the header (Request.ReplaceHeader).
func (b *Body) Trailer(f func(name, value string)) {
	if !b.chunked { // chunks is an earlier request's
		return
	}
	b.chunks.Trailer(func(name, value []byte) {
		if !tooLate(name) && !b.x.req.Replaced(string(name)) {
			f(string(name), string(value))
		}
	})
}

// Expects reports whether the client waits for 100 (Continue) before it sends the body. The next
// Read or Await sends that; so does Response.Inform.
func (b *Body) Expects() bool { return b.ask && b.x.r == b.x.w && !b.x.resp.HeadSent() }

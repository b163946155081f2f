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
	w.live()
	if w.phase != open || status < 100 || status > 199 || status == 101 {
		return nil
	}
	if status == http.StatusContinue {
		w.x.req.body.ask = false
	}
	var fields []Field
	if header != nil {
		fields = header.fields
	}
	w.x.via.interim(status, fields)
	return w.x.via.flush()
}

// AddTrailer adds a field that is sent behind the body, if that goes out in chunks: the client
// speaks HTTP/1.1, the response is streamed, and Content-Length is not set. Otherwise the field is
// dropped, as one is that is not valid, or that a client needs before the body, such as Content-Type
// or Set-Cookie (RFC 9110 section 6.5.1).
func (w *Response) AddTrailer(name, value string) {
	w.live()
	if (w.phase == open || w.phase == streamed) && !tooLate(name) && http1.ValidToken(name) &&
		http1.ValidFieldValue(value) {
		w.trailer = append(w.trailer, Field{name, value})
	}
}

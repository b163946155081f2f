package conn

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Whole answers in one call. Each method takes the place of a body that was written or set before,
// keeps the header fields that there are, and returns the status for the handler to return. Status
// 0 stands for 200, as ever. Once the head has gone out it is too late for another body: the call
// is logged, and the connection is cut.

// JSON answers with v as package encoding/json encodes it, and a newline. The type is
// application/json, unless Content-Type is set. What cannot be encoded is logged, and the answer is
// a 500.
//
// v is encoded on the loop, in one piece. Of a text that is longer than 32 KiB the head and all of
// the text go out at once, from the encoder's own memory, with Content-Length; what the client has
// no room for is waited for. So a layer around the handler changes the head of such an answer by a
// hook (BeforeHead) only.
func (w *Response) JSON(status int, v any) int {
	if !w.replace() {
		return status
	}
	w.implyType("application/json")
	if status != 0 {
		w.SetStatus(status)
	}
	if w.toJSON == nil {
		w.toJSON = json.NewEncoder((*wholeJSON)(w))
	}
	err := w.toJSON.Encode(v)
	if err == nil {
		return status
	}
	w.toJSON = nil // it keeps an error of writing
	if w.phase != open || err == ErrBadField {
		return status // finish sees to it
	}
	return w.failBody("conn: JSON of an answer cannot be made", err)
}

// wholeJSON is what a Response's json.Encoder writes to: each value in one call.
type wholeJSON Response

func (b *wholeJSON) Write(p []byte) (int, error) {
	w := (*Response)(b)
	if len(p) > streamAt {
		w.header.Set("Content-Length", strconv.Itoa(len(p)))
	}
	return w.Write(p)
}

// Text answers with s. The type is text/plain in UTF-8, unless Content-Type is set.
func (w *Response) Text(status int, s string) int {
	if !w.replace() {
		return status
	}
	w.implyType("text/plain; charset=utf-8")
	_, _ = (*wholeText)(w).WriteString(s)
	return status
}

// Template makes pages, as a *template.Template of package html/template does. One of package
// text/template does not escape, and lets what it shows run scripts in the client's browser.
type Template interface {
	Execute(w io.Writer, data any) error
}

// HTML answers with what t makes of data. The type is text/html in UTF-8, unless Content-Type is
// set. The page is made in memory before anything goes out: if t fails, that is logged, and the
// answer is a 500 without a part of the page. t runs on the loop.
func (w *Response) HTML(status int, t Template, data any) int {
	if !w.replace() {
		return status
	}
	w.implyType("text/html; charset=utf-8")
	if err := t.Execute((*wholeText)(w), data); err != nil {
		return w.failBody("conn: page of an answer cannot be made", err)
	}
	return status
}

// wholeText gathers a body, however long it is.
type wholeText Response

func (b *wholeText) Write(p []byte) (int, error) {
	if len(b.buf)+len(p) <= streamAt {
		(*Response)(b).reserve(len(p))
	}
	b.buf = append(b.buf, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (b *wholeText) WriteString(s string) (int, error) {
	if len(b.buf)+len(s) <= streamAt {
		(*Response)(b).reserve(len(s))
	}
	b.buf = append(b.buf, s...)
	return len(s), nil
}

// implyType sets the media type if there is none.
func (w *Response) implyType(t string) {
	if !w.header.Has("Content-Type") {
		w.header.Add("Content-Type", t)
	}
}

// ofBody are fields about the body that there is.
var ofBody = []string{"Content-Type", "Content-Length", "Content-Encoding", "Content-Language",
	"Content-Disposition", "Content-Location", "ETag", "Last-Modified", "Accept-Ranges"}

// dropContent removes the fields about what the handler wanted to send, where an error takes its
// place: those of the body, and for how long caches may keep it.
func (h *Header) dropContent() {
	h.del(ofBody...)
	h.del("Cache-Control", "Expires")
}

func (h *Header) del(names ...string) {
	for _, name := range names {
		h.Del(name)
	}
}

// failBody makes a body that could not be made a 500.
func (w *Response) failBody(what string, err error) int {
	w.Layer().DropBody()
	w.header.dropContent()
	w.logFailure(what, err)
	return http.StatusInternalServerError
}

// logFailure logs why an answer is an error. That the client has left is no failure.
func (w *Response) logFailure(what string, err error) {
	if set := w.x.set; set != nil && !errors.Is(err, loop.ErrClientGone) {
		set.Logger.Error(what, w.x.about(withStack(err)...)...)
	}
}

// Redirect sends the client to url, by status 301, 302, 303, 307 or 308; with another status it is
// a 500, and logged. The first two let browsers turn a POST into a GET, 303 asks for that, and the
// last two forbid it (RFC 9110 section 15.4). url may be relative to the request's. What may not
// stand in a URL is percent-encoded, the backslash and line ends included. Redirect does not look
// where url leads: one that a client has sent, such as //other.example, is for the handler to
// check.
func (w *Response) Redirect(status int, url string) int {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		w.logFailure("conn: redirect", errors.New("no redirect has status "+strconv.Itoa(status)))
		status, url = http.StatusInternalServerError, ""
	}
	if w.replace() {
		w.header.del(ofBody...)
		if url != "" {
			w.header.Set("Location", http1.EscapeURI(url))
		}
	}
	return status
}

// Error answers with an error. With a status of the 400s the client reads err's text, in
// text/plain: the client has made the mistake. With one of the 500s the client gets the error page,
// and err is logged: what went wrong in here is not for the client. If err is nil, there is no text
// and nothing is logged. A status that is no error becomes 500.
//
// What is wrong with the request's body decides the status, whatever the given one: that of a
// *BindError, or 413, 408 or 400 if err is that of reading the body. ErrBodyRead is a 500.
func (w *Response) Error(status int, err error) int {
	var bad *BindError
	body := &w.x.req.body
	if errors.As(err, &bad) {
		status = bad.Status
	} else if errors.Is(err, ErrBodyRead) {
		status = http.StatusInternalServerError
	} else if failed := body.failure(); failed != 0 && errors.Is(err, body.err) {
		status = failed
	}
	if status < 400 || status > 599 {
		status = http.StatusInternalServerError
	}
	if status >= 500 && err != nil {
		w.logFailure("conn: handler failed", err)
	}
	if !w.replace() {
		return status
	}
	w.Layer().DropBody()
	w.header.dropContent()
	if status < 500 && err != nil {
		w.header.Set("X-Content-Type-Options", "nosniff") // the text may repeat what the client sent
		w.Text(status, err.Error()+"\n")
	}
	return status
}

// SetCookie adds a Set-Cookie field. If c is not valid (http.Cookie.Valid), SetCookie adds nothing
// and returns what is wrong.
func (w *Response) SetCookie(c *http.Cookie) error {
	if err := c.Valid(); err != nil {
		return err
	}
	w.Header().Add("Set-Cookie", c.String())
	return nil
}

// Vary says that the answer depends on request fields of these names, so that caches keep one for
// each of their values (RFC 9110 section 12.5.5). Names that are there already are not added again.
func (h *Header) Vary(names ...string) {
	for _, name := range names {
		if !h.varies(name) {
			h.Add("Vary", name)
		}
	}
}

func (h *Header) varies(name string) bool {
	for i := h.index("Vary", 0); i >= 0; i = h.index("Vary", i+1) {
		if v := h.fields[i].Value; ascii.HasToken(v, name) || ascii.HasToken(v, "*") {
			return true
		}
	}
	return false
}

package conn

import (
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/loop"
)

// Errors of Response's methods.
var (
	ErrBodySet      = errors.New("conn: response body was set already")
	ErrComplete     = errors.New("conn: response is complete")
	ErrWroteTooMuch = errors.New("conn: more written than the declared Content-Length")
	ErrBadField     = errors.New("conn: response header has a name or value that is not valid")
)

// streamAt is how much Write gathers before the head has to go out.
const streamAt = 32 << 10

// File is a file that a response's body can come from: an *os.File, for one.
type File interface {
	Fd() uintptr
	Close() error
}

// Response is the answer a handler builds. There are two ways to give it a body.
//
// SetBody, SetBodyReader and SetBodyFile say where it comes from; it is sent after the handler
// returned, with the status that was returned. Write gathers it; when more than 32 KiB come
// together, or at Flush, the head goes out with the status of SetStatus, or else 200, and what
// follows is streamed, chunked unless Content-Length was set. The two do not mix.
type Response struct {
	x      *exchange
	header Header

	buf  []byte // gathered by Write; elsewhere a buffer to copy through
	kind source
	body []byte
	from io.Reader
	file File
	off  int64
	size int64 // of the body, -1: unknown

	early    int // status of a head that goes out before the handler has returned; 0: 200
	status   int
	headSent bool
	chunked  bool
	close    bool  // the connection ends with this response
	bodiless bool  // HEAD, 204, 304: no body is sent, whatever there is
	broken   bool  // the response cannot be finished: cut the connection
	done     bool  // finish was called
	hijacked bool  // there is no response
	left     int64 // of a declared Content-Length, once the head is out
	before   int64 // bytes written for the request when the body began
	bytes    int64 // of the body sent

	// Where the answer of an http.Handler, or of another server, differs.
	reason  string  // of early
	std     bool    // it has no error page, no default type, and may have a date of its own
	sniff   bool    // its type is what its beginning looks like
	dated   bool    // it has a date, or wants none
	trailer []Field // behind the last chunk
}

type source uint8

const (
	gathered source = iota
	given
	reader
	file
)

func (w *Response) begin(x *exchange) {
	w.x, w.done = x, false
}

// release makes w ready for the next response. Until that begins, it is done with.
func (w *Response) release() {
	w.discard()
	if w.header.Len() > 0 {
		w.header.reset()
	}
	if cap(w.buf) > keptBuffer {
		w.buf = nil
	}
	w.early, w.status, w.left, w.before, w.bytes = 0, 0, 0, 0, 0
	w.reason, w.std, w.sniff, w.dated, w.hijacked, w.trailer = "", false, false, false, false, nil
	w.headSent, w.chunked, w.close, w.bodiless, w.broken, w.done = false, false, false, false, false, true
}

// discard drops the body.
func (w *Response) discard() {
	from, file := w.from, w.file
	w.kind, w.body, w.from, w.file = gathered, nil, nil, nil // first: a Close that panics is not called again
	w.buf = w.buf[:0]
	if c, ok := from.(io.Closer); ok {
		_ = c.Close()
	}
	if file != nil {
		_ = file.Close()
	}
}

// clear drops body and header.
func (w *Response) clear() {
	w.discard()
	w.header.reset()
	w.reason, w.std, w.sniff, w.dated, w.trailer = "", false, false, false, nil
}

// Header returns the header fields to send. Date, Connection, Transfer-Encoding and, unless the body is streamed,
// Content-Length are the server's business; setting Connection to "close" closes the connection afterwards.
func (w *Response) Header() *Header { return &w.header }

// SetStatus sets the status of a head that goes out before the handler returns: at the first Flush,
// or when Write has gathered more than 32 KiB. Without it that is 200. Where nothing was sent by
// then, the status counts that the handler returns; 0 stands for the one of SetStatus then. A code
// that is no final status, 200 to 999, is logged and replaced by 500. Once the head has gone out it
// is too late for another one, which is logged.
func (w *Response) SetStatus(code int) {
	switch {
	case w.headSent && code != w.status:
		w.x.set.Logger.Warn("status ignored: the head was sent before it was set", "sent", w.status, "set", code, "target", w.x.req.Target())
	case w.headSent || w.done:
	case w.final(code):
		w.early, w.reason = code, ""
	default:
		w.early, w.reason = http.StatusInternalServerError, ""
	}
}

// Relay says that the answer is another server's, with that status and reason phrase (empty: the usual one), streamed or
// not: it gets no error page and no Content-Type that it does not have. The status that the handler returns has to be the
// same, unless the body is set otherwise after all. A reason that has control characters is not sent.
func (w *Response) Relay(status int, reason string) {
	w.std, w.early, w.reason = true, status, ""
	if http1.ValidFieldValue(reason) {
		w.reason = reason
	}
}

// Clear drops body, header and what Relay said, for another answer. Once the head has gone out it is too late.
func (w *Response) Clear() {
	if !w.headSent {
		w.early = 0
		w.clear()
	}
}

// Abort says that the answer cannot be completed: when the handler has returned, the connection is cut, so that the
// client can tell. What was written before goes out, if the head has.
func (w *Response) Abort() {
	if w.headSent && !w.done && w.kind == gathered {
		_ = w.stream(w.buf)
		w.buf = w.buf[:0]
	}
	w.broken = true
}

// HeadSent reports whether status and header have gone out, and cannot be changed any more.
func (w *Response) HeadSent() bool { return w.headSent }

// Write adds to the body. Once the body is being streamed it may wait for the client, and returns an error when
// that has gone, is too slow (write_timeout, min_rate), or more is written than Content-Length declared.
func (w *Response) Write(p []byte) (int, error) {
	if err := w.writable(); err != nil {
		return 0, err
	}
	if len(w.buf)+len(p) <= streamAt && (!w.headSent || len(p) < gather) {
		w.reserve(len(p))
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if len(w.buf) > 0 {
		if err := w.stream(w.buf); err != nil {
			return 0, err
		}
	}
	w.buf = w.buf[:0]
	if len(p) < copyBelow {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.stream(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString is Write of a string.
func (w *Response) WriteString(s string) (int, error) {
	if w.writable() == nil && len(w.buf)+len(s) <= streamAt {
		w.reserve(len(s))
		w.buf = append(w.buf, s...)
		return len(s), nil
	}
	return w.Write([]byte(s))
}

func (w *Response) writable() error {
	switch {
	case w.hijacked:
		return http.ErrHijacked
	case w.done:
		return ErrComplete
	case w.kind != gathered:
		return ErrBodySet
	}
	return nil
}

// SetBody makes b the body, without copying it: it must not change until the response is out. What was written or
// set before is dropped. Once the head has gone out it is too late for this and the other two: it is logged, and the
// connection is cut.
func (w *Response) SetBody(b []byte) {
	if w.replace() {
		w.kind, w.body, w.size = given, b, int64(len(b))
	}
}

// replace drops the body that there is, if another can take its place.
func (w *Response) replace() bool {
	if !w.headSent {
		w.discard()
		return true
	}
	if !w.done {
		w.x.set.Logger.Error("response body set after the head was sent", "target", w.x.req.Target())
		w.broken = true
	}
	return false
}

// SetBodyReader makes the body what r gives, n bytes of it, or all to io.EOF where n is negative. r is read on the
// request's thread and may use it to wait; it is closed afterwards if it is an io.Closer. If it fails, or ends
// early, the connection is cut, so that the client can tell.
func (w *Response) SetBodyReader(r io.Reader, n int64) {
	if w.replace() {
		w.kind, w.from, w.size = reader, r, max(n, -1)
	} else if c, ok := r.(io.Closer); ok {
		_ = c.Close()
	}
}

// SetBodyFile makes n bytes of f from off on the body, sent by sendfile(2), and closes f afterwards. f must be a
// regular file. If it turns out shorter the connection is cut.
func (w *Response) SetBodyFile(f File, off, n int64) {
	if w.replace() {
		w.kind, w.file, w.off, w.size = file, f, off, max(n, 0)
	} else {
		_ = f.Close()
	}
}

// Flush sends the head, with the status of SetStatus, if it has not gone out, and all that was
// written so far. It is for whoever then waits, perhaps for long: buffers of some size are held no
// longer.
func (w *Response) Flush() error {
	if err := w.writable(); err != nil {
		return err
	}
	if err := w.stream(w.buf); err != nil {
		return err
	}
	w.buf = w.buf[:0]
	err := w.x.flush()
	w.x.slim()
	return err
}

// stream sends p as part of a body whose end is not known.
func (w *Response) stream(p []byte) error {
	if !w.headSent {
		if w.badField() != nil {
			return ErrBadField // unless the handler mends it, finish makes it a 500
		}
		w.size = -1
		if n, ok := w.declared(); ok {
			w.size = n
		}
		w.sendHead(cmp.Or(w.early, 200), p)
	}
	if len(p) == 0 {
		return w.x.writeErr
	}
	if w.bodiless {
		w.x.stream.Spend() // nothing else would end an endless body, or let others run meanwhile
		if w.x.c.Gone() {
			return loop.ErrClientGone
		}
		return w.x.writeErr
	}
	return w.frame(p)
}

// frame sends a piece of the body within the framing that the head announced.
func (w *Response) frame(p []byte) error {
	x := w.x
	if !w.chunked && w.size >= 0 {
		if int64(len(p)) > w.left {
			return ErrWroteTooMuch
		}
		w.left -= int64(len(p))
	}
	w.bytes += int64(len(p))
	if !w.chunked {
		return x.send(p)
	}
	x.out = http1.AppendChunkHeader(x.out, len(p))
	if err := x.send(p); err != nil {
		return err
	}
	x.out = append(x.out, "\r\n"...)
	return nil
}

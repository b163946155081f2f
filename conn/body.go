package conn

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/lwango/lwango/internal/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Errors of Body.Read, besides those of the connection. If the head has not gone out when the
// handler returns, the error decides the status, 413, 408 or 400, unless the handler answers with a
// status of 400 or above and a body of its own.
var (
	ErrBodyTooLarge = errors.New("request body too large")
	ErrBodyTimeout  = fmt.Errorf("request body not sent in time: %w", loop.ErrDeadlineExceeded)
)

// ErrBodyRead is the error of Parts, Form, MultipartForm, BindForm and BindJSON when the handler
// has read the body before. That is the program's mistake: Response.Error makes a 500 of it.
var ErrBodyRead = errors.New("the handler has read the request body before")

// drainLimit is how many bytes of an unread body the server reads to keep the connection. Beyond it
// a new connection is cheaper.
const drainLimit = 256 << 10

// Body reads a request's body, framed by Content-Length or chunked (RFC 9112 section 6.3), straight
// from the connection; only what came in one read with the head is in a buffer. Only the request's
// thread may use it.
type Body struct {
	x       *exchange
	left    int64 // with a Content-Length
	chunked bool
	chunks  http1.Chunked
	read    int64
	tryOnly bool  // Read does not wait, but returns stream.ErrWouldBlock
	limit   int64 // of what is read; negative: none
	ask     bool  // the client waits for 100 (Continue)
	err     error // sticky; io.EOF at the end
}

func (b *Body) reset(x *exchange) {
	h := &x.req.head
	b.x, b.left, b.chunked, b.read, b.err = x, max(h.ContentLength, 0), h.Chunked, 0, nil
	b.limit = x.set.MaxBodySize
	b.ask = h.Expect100
	if b.chunked {
		b.chunks.Reset()
	} else if b.left == 0 {
		b.err = io.EOF
	}
	b.checkLength()
}

// checkLength notes that Content-Length exceeds the limit, before the client is asked for the body.
func (b *Body) checkLength() {
	if !b.chunked && b.err == nil && b.limit >= 0 && b.read+b.left > b.limit {
		b.err = ErrBodyTooLarge
	}
}

// Read reads up to len(p) bytes, and waits for the first of them. It returns io.EOF at the end of
// the body, ErrBodyTooLarge past max_body_size, ErrBodyTimeout when the client is too slow
// (body_timeout, min_rate), io.ErrUnexpectedEOF when the client has left before the end, and an
// error of package http1 for bad chunks.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if b.x.stream.ReadExpired() {
		return 0, loop.ErrDeadlineExceeded
	}
	if b.ask {
		b.proceed()
	}
	return b.take(p)
}

// take is Read of a body that has not ended and whose client sends it.
func (b *Body) take(p []byte) (int, error) {
	var n int
	var err error
	if b.chunked {
		n, err = b.readChunked(p)
	} else {
		n, err = b.readLength(p)
	}
	return b.count(n, err)
}

// count counts what was read, and returns n and err as Read does.
func (b *Body) count(n int, err error) (int, error) {
	if b.undecided(err) {
		return 0, err
	}
	b.read += int64(n)
	if err == nil && b.limit >= 0 && b.read > b.limit {
		n, err = 0, ErrBodyTooLarge
	}
	return n, b.fail(err)
}

// fail returns an error as Read does, and keeps it.
func (b *Body) fail(err error) error {
	switch {
	case err == nil:
		return nil
	case err == errEnd:
		err = io.EOF
	case err == io.EOF: // the client's end, not the body's
		err = io.ErrUnexpectedEOF
		b.x.c.Left()
	case errors.As(err, new(*os.SyscallError)):
		b.x.c.Left()
	case errors.Is(err, stream.ErrTooSlow):
		err = ErrBodyTimeout
	}
	b.err = err
	return err
}

// taken returns ErrBodyRead if something was read, unless reading has failed.
func (b *Body) taken() error {
	if b.read > 0 && (b.err == nil || b.err == io.EOF) {
		return ErrBodyRead
	}
	return nil
}

// Await waits until something has arrived for Read, so that the caller needs no buffer meanwhile.
// In the chunked coding that may be framing alone, without a byte of the body. The error is Read's,
// io.EOF at the end of the body.
func (b *Body) Await() error {
	x := b.x
	if b.err != nil || x.r < x.w {
		return b.err
	}
	if x.stream.ReadExpired() {
		return loop.ErrDeadlineExceeded
	}
	if b.ask {
		b.proceed()
	}
	x.r, x.w = x.base, x.base
	err := x.fill(!b.tryOnly)
	if b.undecided(err) {
		return err
	}
	return b.fail(err)
}

// undecided reports that err does not end the body: there was nothing to read, or a deadline that
// the handler had set has passed, and the handler may set another.
func (b *Body) undecided(err error) bool {
	return err == stream.ErrWouldBlock || err == loop.ErrDeadlineExceeded
}

// SetLimit lowers the limit of max_body_size to n bytes for this request; a negative n is 0, as in
// http.MaxBytesReader. If Content-Length exceeds it, the next Read returns ErrBodyTooLarge, before
// the client is asked to send the body.
func (b *Body) SetLimit(n int64) {
	if n = max(n, 0); b.limit < 0 || n < b.limit {
		b.limit = n
	}
	b.checkLength()
}

// ReplaceLimit makes n bytes the limit of the body, more or less than max_body_size, but no more
// than Config.LargestBodySize; a negative n is 0. It is for what stands in front of a handler: once
// some of the body was read, ReplaceLimit only lowers the limit, as SetLimit does.
func (b *Body) ReplaceLimit(n int64) {
	n = max(n, 0)
	if b.read > 0 {
		b.SetLimit(n)
		return
	}
	if most := b.x.set.LargestBodySize; most >= 0 {
		n = min(n, most)
	}
	b.limit = n
	if b.err == ErrBodyTooLarge {
		b.err = nil
	}
	b.checkLength()
}

// proceed sends 100 (Continue) to a client that waits for it. A client that has not waited needs
// none (RFC 9110 section 10.1.1). After the head the client would take it for a part of the body.
func (b *Body) proceed() {
	b.ask = false
	if x := b.x; x.r == x.w && !x.resp.HeadSent() {
		x.out = append(x.out, "HTTP/1.1 100 Continue\r\n\r\n"...)
	}
}

// errEnd is the end of the body, as opposed to the end of the connection.
var errEnd = errors.New("end of body")

func (b *Body) readLength(p []byte) (n int, err error) {
	x := b.x
	p = p[:min(int64(len(p)), b.left)]
	if x.r < x.w {
		n = copy(p, x.in[x.r:x.w])
		x.r += n
	} else {
		n, err = x.read(p, !b.tryOnly)
	}
	b.left -= int64(n)
	if err == nil && b.left == 0 {
		b.err = io.EOF // for the next call
	}
	return n, err
}

// readChunked reads into p, and decodes there, unless the input buffer has the more room: of what
// is read beyond the body's end, no more can come than the buffer takes.
func (b *Body) readChunked(p []byte) (int, error) {
	x := b.x
	for {
		src, buffered := x.in[x.r:x.w], true
		if len(src) == 0 {
			x.r, x.w = x.base, x.base
			room := int64(len(x.in) - x.base)
			if buffered = int64(len(p)) <= room; buffered {
				if err := x.fill(!b.tryOnly); err != nil {
					return 0, err
				}
				src = x.in[x.r:x.w]
			} else {
				n, err := x.read(p[:min(b.chunks.Left()+room, int64(len(p)))], !b.tryOnly)
				if err != nil {
					return 0, err
				}
				src = p[:n]
			}
		}
		nd, ns, done, err := b.chunks.Decode(p, src)
		if buffered {
			x.r += ns
		} else {
			x.w += copy(x.in[x.w:], src[ns:]) // the next request
		}
		switch {
		case err != nil:
			return nd, err
		case done && nd > 0:
			b.err = io.EOF // for the next call
			return nd, nil
		case done:
			return 0, errEnd
		case nd > 0:
			return nd, nil
		}
	}
}

// failure returns the status that a failed read of the body calls for, 0 for none.
func (b *Body) failure() int {
	if b.err == nil || b.err == io.EOF || b.err == errUnread {
		return 0
	}
	var bad *http1.Error
	switch {
	case b.err == ErrBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case errors.Is(b.err, ErrSpoolFull):
		return http.StatusServiceUnavailable
	case b.err == ErrBodyTimeout:
		return http.StatusRequestTimeout
	case errors.As(b.err, &bad):
		return bad.Status
	}
	return http.StatusBadRequest
}

// cut reports that the client has left before the body's end.
func (b *Body) cut() bool {
	return b.failure() == http.StatusBadRequest && b.err != http.ErrHijacked &&
		!errors.As(b.err, new(*http1.Error))
}

// unread reports whether some of the body may still be under way. That of an earlier turn of the
// connection, or of another one, is not.
func (b *Body) unread() bool { return b.x != nil && b.err != io.EOF && b.err != ErrComplete }

// mustClose reports that no other request can follow on the connection: the body is bad, or given
// up by skip, or its client waits for 100 (Continue). The head is the last place to announce the
// end. A proxy in front would send another client's request on a connection that ends unannounced.
func (b *Body) mustClose() bool { return b.err != nil && b.err != io.EOF || b.ask }

// skip decides what becomes of a body that the handler has left unread: either drain can read the
// rest, or the connection must close. The length of a chunked body is unknown. Its end must have
// arrived already, and skip drops what is in front of it.
func (b *Body) skip() {
	if b.err != nil || b.ask || !b.chunked && b.left <= drainLimit {
		return
	}
	if b.chunked {
		b.tryOnly = true
		for from := b.read; b.err == nil && b.read-from <= drainLimit; {
			if b.drop() != nil {
				break
			}
		}
		b.tryOnly = false
	}
	if b.err == nil {
		b.err = errUnread
	}
}

var errUnread = errors.New("request body left unread")

// look decodes the framing that has arrived, and may find the end of the body, or a mistake. It
// stops at data, which the handler may still want.
func (b *Body) look() {
	x := b.x
	if b.err != nil || !b.chunked || x.r == x.w {
		return
	}
	_, n, done, err := b.chunks.Decode(nil, x.in[x.r:x.w])
	x.r += n
	if done {
		err = errEnd
	}
	_ = b.fail(err)
}

// drop reads a piece of the body and discards it. It holds no memory while it waits. The error is
// Read's.
func (b *Body) drop() error {
	x, try := b.x, b.tryOnly
	for {
		buf := buffers.Get().(*[streamAt]byte)
		b.tryOnly = true
		_, err := b.take(buf[:])
		b.tryOnly = try
		buffers.Put(buf)
		if err != stream.ErrWouldBlock || try {
			return err
		}
		if err := x.awaitInput(); err != nil {
			_, err = b.count(0, err)
			return err
		}
	}
}

// drain drops what was left unread, and reports whether the connection can go on. If the handler,
// or the reader of its answer, could still read the body when the head went out, drain reads it to
// its end, however long it is: the head has promised that the connection goes on.
func (b *Body) drain() bool {
	for b.err == nil {
		if b.drop() != nil {
			break
		}
	}
	return b.err == io.EOF
}

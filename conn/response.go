package conn

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// Response is the answer that a handler builds. There are two ways to give it a body.
//
// SetBody, SetBodyReader and SetBodyFile set where the body comes from. It is sent after the
// handler has returned, with the returned status. Write gathers the body instead. At Flush, or when
// more than 32 KiB have come together, the head goes out with the status of SetStatus, or else 200.
// What follows is streamed, in chunks unless Content-Length was set. The two ways do not mix.
type Response struct {
	x      *exchange
	via    carrier  // of x, but see within
	req    *Request // as the handler has it: of an error page, another one than the client's
	header Header
	buf    []byte // gathered by Write; elsewhere a buffer to copy through
	hooks  []HeadHook
	pages  []ErrorPage
	toJSON *json.Encoder // writes to this response, and to the next ones; nil: none was needed

	made
}

// within reports whether w is that of a handler within a middleware of net/http, which carries the
// answer to the response around it.
func (w *Response) within() bool { return w != &w.x.resp }

// made is what becomes of one answer. Nothing of it is left for the next.
type made struct {
	phase  phase
	status int  // the one that has gone out; 0: none
	close  bool // the connection ends with this response

	// The head that is still to come.
	early        int    // its status, if it goes out before the handler has returned; 0: 200
	reason       string // of early; empty: the usual one
	manner       manner
	dated        bool       // it has a date, or wants none
	hungUp       bool       // see HangUp
	paged        bool       // the body is an error page, whatever the status
	forced       int        // status of the error page that is being made; 0: none
	endUncertain bool       // see MarkEndUncertain
	resetBy      http2.Code // see ResetBy; 0: none

	// What the hooks see and decide of the body.
	hooking bool   // they run
	decided bool   // SetEncoder was called
	first   []byte // what the body begins with, as far as it was gathered

	// The body that the handler has set.
	kind  source
	body  []byte
	of    io.Closer // what body is part of; nil: nothing that wants to know
	from  io.Reader
	ahead // of from
	file  File
	off   int64
	size  int64 // -1: unknown

	// The body that goes out behind the head.
	plan    plan    // of the head
	left    int64   // of a body that is sent by its length
	bytes   int64   // of the body sent
	trailer []Field // behind its end

	// The content coding.
	enc       Encoder // nil: none
	coded     []byte  // by enc, not sent yet
	unflushed bool    // enc may hold what was written
	encodedAs string  // the coding of encoded; "": there is none
	encoded   []byte  // all of the body, see SetEncoded

	tap *tapped // nil: none, or it wants no more
}

// phase is how far a response is. It decides what a handler may still do:
//
//	          status, header  SetBody...       Write, Flush, Hijack  can become
//	open      yes             yes              yes                   any other
//	streamed  too late        becomes aborted  yes                   aborted, hijacked, complete
//	aborted   too late        too late         errAborted            complete
//	hijacked  too late        too late         http.ErrHijacked      complete, by reset
//	complete  too late        too late         ErrComplete           open, by begin
type phase uint8

const (
	complete phase = iota // the answer has been given, or no request has begun yet
	open                  // nothing has gone out
	streamed              // the head has gone out, and the body follows it
	aborted               // the answer cannot be completed: finish cuts the connection
	hijacked              // the handler owns the connection: there is no response
)

// refusals are the errors of Write, Flush and Hijack in the phases that do not allow them.
var refusals = [...]error{complete: ErrComplete, aborted: errAborted, hijacked: http.ErrHijacked}

// manner is where an answer comes from, which decides what the server adds to it.
type manner uint8

const (
	native  manner = iota // a Handler: the server adds error pages, and a type for text
	relayed               // an http.Handler or another server: the server adds neither
	sniffed               // an http.Handler that leaves the type to the first bytes of the body
)

// source is where the body comes from.
type source uint8

const (
	gathered source = iota
	given
	reader
	file
)

func (w *Response) begin(x *exchange) {
	w.x, w.via, w.req, w.phase = x, x.via, &x.req, open
}

// reset drops the whole answer. Buffers stay, for the next one. Nothing of hooks and pages does,
// because these functions may hold all of a configuration that is in force no more.
func (w *Response) reset() {
	w.discard()
	if w.header.Len() > 0 {
		w.header.reset()
	}
	if cap(w.buf) > keptBuffer {
		w.buf = nil
	}
	if len(w.hooks)+len(w.pages) > 0 {
		w.Layer().DropHooks(0, 0)
	}
	if w.tap != nil {
		w.endTap(errAborted)
	}
	w.made = made{}
}

// discard drops the body.
func (w *Response) discard() {
	w.buf = w.buf[:0]
	if w.enc != nil || w.encodedAs != "" || w.kind != gathered {
		w.discardSet()
	}
}

// discardSet drops what else discard does than what was gathered.
func (w *Response) discardSet() {
	if w.enc != nil {
		w.dropEncoder()
	}
	if w.encodedAs != "" {
		w.encodedAs, w.encoded = "", nil
	}
	if w.kind != gathered {
		w.dropSource()
	}
}

// dropSource drops the body that the handler has set.
func (w *Response) dropSource() {
	kind := w.kind
	w.kind = gathered // first, so that a Close that panics is not called again
	switch kind {
	case given:
		of := w.of
		w.body, w.of = nil, nil
		if of != nil {
			_ = of.Close()
		}
	case reader:
		from := w.from
		w.from, w.ahead = nil, ahead{}
		if c, ok := from.(io.Closer); ok {
			_ = c.Close()
		}
	case file:
		f := w.file
		w.file = nil
		_ = f.Close()
	}
}

// clear makes an open response as it was when the handler began.
func (w *Response) clear() {
	last, hooks, pages, forced, tap := w.close, w.hooks, w.pages, w.forced, w.tap
	w.hooks, w.pages, w.tap = nil, nil, nil
	w.reset()
	w.phase, w.close, w.hooks, w.pages, w.forced, w.tap = open, last, hooks, pages, forced, tap
}

// fail ends an answer whose handler has failed. If the head has gone out, the answer is cut. If it
// has not, cut says whether it is cut as well, or whether another answer will take its place.
func (w *Response) fail(cut bool) {
	switch {
	case w.phase == streamed, w.phase == open && cut:
		w.phase = aborted
	case w.phase == open:
		w.drop(errAborted)
	}
}

// drop makes room for an error in place of an answer of which nothing has gone out. A tap that has
// seen the head of that answer is told err. Another one gets the error, as any answer.
func (w *Response) drop(err error) {
	if a := w.tap; a != nil && a.headed {
		w.endTap(err)
	}
	w.clear()
}

// Header returns the header fields to send. The server itself sets Date, Connection,
// Transfer-Encoding and, unless the body is streamed, Content-Length. If the handler sets
// Connection to "close", the server closes the connection afterwards.
func (w *Response) Header() *Header {
	if w.over() {
		return new(Header) // what is set in it must not reach the next client
	}
	return &w.header
}

// SetStatus sets the status of a head that goes out before the handler returns: at the first Flush,
// or when Write has gathered more than 32 KiB. Without SetStatus that status is 200. If nothing has
// gone out when the handler returns, the returned status counts, and 0 stands for the one of
// SetStatus. A code that is no final status, 200 to 999, is logged and replaced by 500. Once the
// head has gone out, SetStatus only logs that it is too late.
func (w *Response) SetStatus(code int) {
	w.live()
	switch {
	case w.HeadSent() && code != w.status:
		w.x.set.Logger.Warn("conn: status ignored, the head was sent before it was set",
			w.x.about("sent", w.status, "set", code)...)
	case w.phase != open:
	case w.final(code):
		w.early, w.reason = code, ""
	default:
		w.early, w.reason = http.StatusInternalServerError, ""
	}
}

// Relay says that the answer is another server's, with that status and reason phrase (empty: the
// usual one), streamed or not. The server adds no error page to it and no Content-Type. The handler
// must return the same status, unless it sets another body after all. A reason that has control
// characters is not sent.
func (w ResponseLayer) Relay(status int, reason string) {
	w.live()
	if w.phase != open {
		return
	}
	w.manner, w.early, w.reason = relayed, status, ""
	if !usual(status, reason) && http1.ValidFieldValue(reason) {
		w.reason = reason
	}
}

// SetMaxRate lets the server send no more than n bytes a second of this answer, from the next write
// on; 0: as fast as the client takes them. The thread sleeps between small writes, and the loop
// serves others meanwhile.
func (w *Response) SetMaxRate(n int64) {
	w.live()
	if w.phase == open || w.phase == streamed {
		w.via.setMaxRate(n)
	}
}

// RateAfter lets n bytes of the answer go out before SetMaxRate counts.
func (w ResponseLayer) RateAfter(n int64) {
	w.live()
	if _, writing := w.via.paces(); writing != nil && (w.phase == open || w.phase == streamed) {
		writing.Free = n
	}
}

// Clear drops the body, the header and the effect of Relay, to make room for another answer. Once
// the head has gone out, it does nothing.
func (w ResponseLayer) Clear() {
	w.live()
	if w.phase == open {
		w.clear()
	}
}

// Abort says that the answer cannot be completed. When the handler has returned, the server cuts
// the connection, so that the client can tell. If the head has gone out, what was written before
// Abort goes out, too. After Abort nothing can be written.
func (w *Response) Abort() {
	w.live()
	switch w.phase {
	case streamed:
		if a := w.tap; a != nil && a.verdict == Withheld {
			w.buf = w.buf[:0]
		} else if w.kind == gathered {
			_ = w.stream(w.buf)
			_ = w.push()
			w.buf = w.buf[:0]
		}
		w.phase = aborted
	case open:
		w.phase = aborted
	}
}

// HangUp aborts an answer of which nothing has gone out: the client gets none. The server closes
// the connection behind the answers to earlier requests; over HTTP/2 it resets the stream. HangUp
// returns StatusNoAnswer, for the handler to return; access logs and counts have it.
func (w ResponseLayer) HangUp() int {
	if w.live(); w.phase == open {
		w.phase, w.hungUp = aborted, true
	}
	return StatusNoAnswer
}

// ResetBy aborts an answer that another server has ended by resetting its stream with that code of
// HTTP/2 (RFC 9113 section 7): the client's stream is reset with the same one. It returns false,
// and does nothing, if the request has not come by HTTP/2, or if the code is of no error, or would
// say of this server's connection what is true of the other one's: that the request can be sent
// again, or has to be sent in another way.
func (w ResponseLayer) ResetBy(code uint32) bool {
	if w.via.multiplexed() == nil {
		return false
	}
	switch http2.Code(code) {
	case http2.NoError, http2.RefusedStream, http2.InadequateSecurity, http2.HTTP11Required:
		return false
	}
	w.Abort()
	w.resetBy = http2.Code(code)
	return true
}

// HeadSent reports whether status and header have gone out, and cannot be changed any more.
func (w *Response) HeadSent() bool { return w.status != 0 }

// Write adds to the body. Once the body is being streamed, Write may wait for the client. It
// returns an error if the client has gone or is too slow (write_timeout, min_rate), or if the
// handler writes more than Content-Length declared.
func (w *Response) Write(p []byte) (int, error) {
	if err := w.writable(); err != nil {
		return 0, err
	}
	if a := w.x.subrequest; a != nil && !w.within() && a.most == 0 {
		return len(p), a.drop(int64(len(p)))
	}
	if len(w.buf)+len(p) <= streamAt && (w.phase == open || len(p) < gather) {
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
	if w.writable() == nil && len(w.buf)+len(s) <= streamAt &&
		(w.x.subrequest == nil || w.within()) {
		w.reserve(len(s))
		w.buf = append(w.buf, s...)
		return len(s), nil
	}
	return w.Write([]byte(s))
}

func (w *Response) writable() error {
	w.live()
	switch {
	case w.phase != open && w.phase != streamed:
		return refusals[w.phase]
	case w.kind != gathered:
		return ErrBodySet
	}
	return nil
}

// SetBody makes b the body, without copying it: b must not change until the response is out. What
// was written or set before is dropped. Once the head has gone out, it is too late for SetBody,
// SetBodyReader and SetBodyFile: the call is logged, and the connection is cut.
func (w *Response) SetBody(b []byte) {
	if w.replace() {
		w.kind, w.body, w.size = given, b, int64(len(b))
	}
}

// SetBodyOf is SetBody for bytes of something that is told when they are used no more: the server
// closes of when the answer is out or has got another body, also where it is too late for this one.
func (w ResponseLayer) SetBodyOf(b []byte, of io.Closer) {
	if w.replace() {
		w.kind, w.body, w.size, w.of = given, b, int64(len(b)), of
	} else {
		_ = of.Close()
	}
}

// replace drops the body that there is, and reports whether another can take its place.
func (w *Response) replace() bool {
	w.live()
	switch w.phase {
	case open:
		w.discard()
		return true
	case streamed:
		w.x.set.Logger.Error("conn: response body set after the head was sent", w.x.about()...)
		w.phase = aborted
	}
	return false
}

// SetBodyReader makes n bytes from r the body, or all up to io.EOF if n is negative. The request's
// thread reads r, which may use the thread to wait. If r is an io.Closer, it is closed afterwards.
// If r fails or ends early, the connection is cut, so that the client can tell.
func (w *Response) SetBodyReader(r io.Reader, n int64) {
	if w.replace() {
		w.kind, w.from, w.size = reader, r, max(n, -1)
	} else if c, ok := r.(io.Closer); ok {
		_ = c.Close()
	}
}

// SetBodyFile makes n bytes of f from off on the body, sends them by sendfile(2), and closes f
// afterwards. f must be a regular file. If it turns out to be shorter, the connection is cut.
func (w *Response) SetBodyFile(f File, off, n int64) {
	if w.replace() {
		w.kind, w.file, w.off, w.size = file, f, off, max(n, 0)
	} else {
		_ = f.Close()
	}
}

// Flush sends the head, with the status of SetStatus, if it has not gone out, and all that was
// written so far. A handler that calls it may then wait for long, so Flush also gives up large
// buffers.
func (w *Response) Flush() error {
	if err := w.writable(); err != nil {
		return err
	}
	if w.within() {
		if err := w.via.(interface{ mayFlush() error }).mayFlush(); err != nil {
			return err
		}
	}
	if err := w.stream(w.buf); err != nil {
		return err
	}
	w.buf = w.buf[:0]
	err := w.push()
	w.rest()
	w.slim()
	return err
}

// stream sends p as part of a body whose end is not known.
func (w *Response) stream(p []byte) error {
	if w.phase == open {
		if w.header.firstBad() != nil {
			return ErrBadField // unless the handler mends it, finish makes it a 500
		}
		w.size = -1
		if n, ok := w.declared(); ok {
			w.size = n
		}
		w.sendHead(cmp.Or(w.early, 200), p, true)
	}
	if len(p) == 0 {
		return w.unlessTapped(w.via.writeError())
	}
	if a := w.x.subrequest; a != nil && !w.within() && a.most == 0 {
		return a.drop(int64(len(p)))
	}
	if w.plan.bare && !w.sendsRange() {
		if a := w.tap; a != nil && a.verdict == Withheld {
			return errWithheld
		}
		w.via.spend(0) // nothing else would end an endless body, or let others run meanwhile
		if w.x.req.Thread.Gone() {
			return loop.ErrClientGone
		}
		return w.via.writeError()
	}
	return w.piece(p)
}

// content sends what was written or encoded.
func (w *Response) content(p []byte) error {
	w.bytes += int64(len(p))
	return w.via.data(p)
}

func (w *Response) setWriteDeadline(t time.Time) { w.via.setWriteDeadline(t) }

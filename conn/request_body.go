package conn

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Body reads a request's body. Only the request's thread may use it.
type Body struct {
	x       *exchange
	state   bodyState
	err     error // of Read, unless there may be more: io.EOF, or why the body has failed or is over
	read    int64
	limit   int64 // of what is read; negative: none
	tryOnly bool  // Read does not wait, but returns stream.ErrWouldBlock
	ask     bool  // the client waits for 100 (Continue)

	tee func(p []byte, whole bool) // see Tee; nil: nobody is told

	replacement *replacedBody // nil: no middleware of net/http has replaced the body
}

func (b *Body) begin(x *exchange) {
	h := &x.req.head
	*b = Body{x: x, state: bodyOpen, limit: int64(x.set.MaxBodySize), ask: h.Expect100}
	if !h.HasBody() {
		b.state, b.err = bodyEnded, io.EOF
		return
	}
	b.checkLength()
}

// none makes the body one that is empty, of a request that is made of another one.
func (b *Body) none(x *exchange) { *b = Body{x: x, state: bodyEnded, err: io.EOF} }

// over ends the use of the body.
func (b *Body) over(err error) { b.state, b.err = bodyOver, err }

// checkLength notes that Content-Length exceeds the limit, before the client is asked for the body.
func (b *Body) checkLength() {
	h := &b.x.req.head
	if b.state == bodyOpen && !h.Chunked && b.limit >= 0 && h.ContentLength > b.limit {
		_ = b.failed(ErrBodyTooLarge)
	}
}

// Read reads up to len(p) bytes, and waits for the first of them. It returns io.EOF at the end of
// the body, ErrBodyTooLarge past max_body_size, ErrBodyTimeout when the client is too slow
// (body_timeout, min_rate), io.ErrUnexpectedEOF when the client has left before the end, and an
// error of package http1 for bad chunks.
func (b *Body) Read(p []byte) (int, error) {
	r := b.replacement
	if r == nil {
		return b.readSent(p)
	}
	if r.err != nil || len(p) == 0 {
		return 0, r.err
	}
	n, err := r.Read(p)
	for empty := 1; n == 0 && err == nil; empty++ { // which is no end, and nothing to wait for
		if empty == maxEmptyReads {
			err = io.ErrNoProgress
			break
		}
		n, err = r.Read(p)
	}
	if r.read += int64(n); b.limit >= 0 && r.read > b.limit {
		n, err = 0, b.failed(ErrBodyTooLarge)
	}
	switch err {
	case nil, stream.ErrWouldBlock, loop.ErrDeadlineExceeded, loop.ErrBudget:
	default:
		r.err = err
	}
	if err == io.EOF && n > 0 {
		err = nil // the next call returns it
	}
	return n, err
}

// readSent is Read of what the client sends.
func (b *Body) readSent(p []byte) (int, error) {
	if b.state != bodyOpen || len(p) == 0 {
		return 0, b.err
	}
	if b.x.via.readExpired() {
		return 0, loop.ErrDeadlineExceeded
	}
	if b.ask {
		b.proceed()
	}
	return b.take(p, !b.tryOnly)
}

// take is Read of a body that has not ended and whose client sends it.
func (b *Body) take(p []byte, wait bool) (int, error) {
	n, err := b.x.via.readBody(p, wait)
	b.read += int64(n)
	if (err == nil || err == io.EOF) && b.limit >= 0 && b.read > b.limit {
		return 0, b.failed(ErrBodyTooLarge)
	}
	if b.tee != nil && n > 0 {
		b.tee(p[:n], false)
	}
	if err = b.failed(err); err == io.EOF && n > 0 {
		err = nil // the next call returns it
	}
	return n, err
}

// Tee lets f see what is read of the body, each piece once, and then its end, by a call with whole.
// Whatever reads the body, maybe a goroutine off the loop, calls f, which must not keep p. Those of
// earlier calls go on, and see each piece before f. Tee reports false, and f is not called, if
// something of the body was read before, or its end. It is for what stands in front of a handler,
// and sees the client's body, also where middleware has put another one in its place.
func (b *Body) Tee(f func(p []byte, whole bool)) bool {
	if b.read > 0 || b.state == bodyEnded || b.state == bodyOver {
		return false
	}
	if earlier := b.tee; earlier != nil {
		b.tee = func(p []byte, whole bool) {
			earlier(p, whole)
			f(p, whole)
		}
		return true
	}
	b.tee = f
	return true
}

// failed keeps an error of the carrier, and returns it. Some do not end the body: there was nothing
// to read, or a deadline that the handler had set has passed, and the handler may set another.
func (b *Body) failed(err error) error {
	switch err {
	case nil, stream.ErrWouldBlock, loop.ErrDeadlineExceeded, loop.ErrBudget:
	case io.EOF:
		b.state, b.err = bodyEnded, err
		if b.tee != nil {
			b.tee(nil, true)
		}
	default:
		if err == ErrBodyTimeout && b.state == bodyOpen {
			reading, _ := b.x.via.paces()
			b.x.slow(stream.ErrTooSlow, reading)
		}
		b.state, b.err = bodyFailed, err
	}
	return err
}

// SetTimeout sets how long the client may be silent while something waits for the body of this
// request, in place of body_timeout; negative: for any time. With more time than that, min_rate
// does not count. Once the head of the answer has gone out, what the client takes of the answer
// ends its silence as well, and so does a PING of HTTP/2.
func (b *Body) SetTimeout(d time.Duration) { b.x.via.setBodyTimeout(d) }

// chunked reports whether only the end of the body tells how long it is. Then there may be fields
// behind it.
func (b *Body) chunked() bool {
	return b.state != bodyOver && b.x.req.head.Chunked && b == &b.x.req.body
}

// replacedBody is what a middleware of net/http has put in the place of a body, and what has become
// of that.
type replacedBody struct {
	io.Reader
	read int64
	err  error // see Body.ended
}

// ended returns the error that all reads return from now on; nil: there may be more.
func (b *Body) ended() error {
	if r := b.replacement; r != nil {
		return r.err
	}
	return b.err
}

// taken returns ErrBodyRead if something was read, unless reading has failed.
func (b *Body) taken() error {
	if r := b.replacement; r != nil {
		if r.read > 0 && (r.err == nil || r.err == io.EOF) {
			return ErrBodyRead
		}
		return nil
	}
	if b.read > 0 && (b.state == bodyOpen || b.state == bodyEnded) {
		return ErrBodyRead
	}
	return nil
}

// AwaitInput waits until something has arrived for Read, so that the caller needs no buffer
// meanwhile. In the chunked coding that may be framing alone, without a byte of the body. The error
// is Read's, io.EOF at the end of the body.
func (b *Body) AwaitInput() error {
	if r := b.replacement; r != nil && (!b.tryOnly || r.err != nil || b.state != bodyOpen) {
		return r.err // nil: it may have something, and Read may wait
	}
	if b.state != bodyOpen || b.x.via.arrived() {
		return b.err
	}
	if b.x.via.readExpired() {
		return loop.ErrDeadlineExceeded
	}
	if b.ask {
		b.proceed()
	}
	return b.failed(b.x.via.awaitBody(!b.tryOnly))
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
		b.state, b.err = bodyOpen, nil
	}
	b.checkLength()
}

// proceed sends 100 (Continue) to a client that waits for it. A client that has not waited needs
// none (RFC 9110 section 10.1.1). After the head the client would take it for a part of the body.
func (b *Body) proceed() {
	b.ask = false
	if x := b.x; !x.via.arrived() && !x.resp.HeadSent() {
		x.via.interim(http.StatusContinue, nil)
	}
}

// failure returns the status that a failed read of the body calls for, 0 for none.
func (b *Body) failure() int {
	if b.state != bodyFailed {
		return 0
	}
	var bad *http1.Error
	switch {
	case b.err == ErrBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case errors.Is(b.err, ErrSpoolFull), b.err == ErrNoDescriptor:
		return http.StatusServiceUnavailable
	case b.err == ErrBodyTimeout:
		return http.StatusRequestTimeout
	case errors.As(b.err, &bad):
		return bad.Status
	}
	return http.StatusBadRequest
}

// truncated reports that the client has left before the body's end.
func (b *Body) truncated() bool {
	return b.failure() == http.StatusBadRequest && !errors.As(b.err, new(*http1.Error))
}

// KeepTrailer lets Trailer return the trailer section of a chunked body. It must be called before
// the first Read.
func (b *Body) KeepTrailer() {
	if b.state == bodyOpen {
		b.x.via.keepTrailer()
	}
}

// Trailer calls f for each field behind a chunked body that was read to its end (see KeepTrailer),
// except those that would be needed before the body, such as Host or Authorization (RFC 9110
// section 6.5.1), and those that the server has replaced in the header
// (RequestLayer.ReplaceHeader).
func (b *Body) Trailer(f func(name, value string)) {
	if !b.chunked() {
		return
	}
	b.x.via.trailer(func(name, value []byte) {
		if !tooLate(name) && !b.x.req.Layer().Replaced(string(name)) {
			f(string(name), string(value))
		}
	})
}

// Expects reports whether the client waits for 100 (Continue) before it sends the body. The next
// Read or Await sends that; so does Response.Inform.
func (b *Body) Expects() bool {
	return b.ask && !b.x.via.arrived() && !b.x.resp.HeadSent()
}

// Duplex is a mode of a request in which body and answer move at once. A handler that passes on
// both needs it. Only Duplex.Await waits. A Body.Read that would wait returns stream.ErrWouldBlock.
// A write sends as much as the client has room for, and the Duplex holds the rest: the handler
// writes no more until SendHeld reports that nothing is left. The server's limits hold for both
// directions as usual: body_timeout, write_timeout and min_rate. If the client exceeds one, Await
// ends, and the next Body.Read or SendHeld returns the error.
//
// The mode ends with End, or with the handler. Only the request's thread may use a Duplex.
type Duplex struct{ x *exchange }

// Duplex lets body and answer move at once from now on, until Duplex.End or the end of the handler.
func (r RequestLayer) Duplex() *Duplex {
	d := new(Duplex)
	d.begin(r.x)
	return d
}

func (d *Duplex) begin(x *exchange) {
	x.finishDuplex()  // an earlier Duplex writes what it holds
	_ = x.via.flush() // answers to earlier requests; what is held from now on is this one's
	x.req.Thread.Layer().FlushBeforeWait(false)
	d.x = x
	x.duplex, x.req.body.tryOnly = d, true
	x.via.beginDuplex()
}

// SetMinRate has the client take at least n bytes a second of the answer, where min_rate demands
// less, until it is called again or the mode ends. What the client has taken before counts, see
// stream.Pace. 0 sets min_rate back.
func (d *Duplex) SetMinRate(n int) {
	if x := d.x; x.duplex == d {
		x.via.setMinRate(n)
	}
}

// drop ends the mode without a wait. What is held is not written, so the connection must end.
func (d *Duplex) drop() {
	if x := d.x; x != nil && x.duplex == d {
		x.duplex, x.req.body.tryOnly = nil, false
		x.via.setMinRate(0)
		x.via.dropDuplex()
	}
}

// End ends the mode and writes what is held, waiting as every write does. The error is that of
// writing.
func (d *Duplex) End() error {
	d.x.finishDuplex()
	return d.x.resp.unlessTapped(d.x.via.writeError())
}

// Held returns how many bytes are held.
func (d *Duplex) Held() int { return d.x.via.held() }

// Room returns how many bytes the client takes at present, behind what is held and what the
// Response has gathered, as it has said by its windows of HTTP/2. What is written beyond that would
// be held. By HTTP/1.1 a client says nothing, and the room is math.MaxInt.
func (d *Duplex) Room() int {
	room := d.x.via.room()
	if room == unlimited {
		return room
	}
	return max(room-len(d.x.resp.buf), 0)
}

// SendHeld writes as much of what is held as there is room for, and returns how many bytes are
// left. The error is from this write or an earlier one.
func (d *Duplex) SendHeld() (left int, err error) {
	left, err = d.x.via.sendHeld()
	if w := &d.x.resp; w.tap != nil {
		if err != nil {
			err = w.unlessTapped(err)
			left = 0
		} else if left == 0 && w.tap.part.given {
			w.endPart()
		}
	}
	return left, err
}

// Await waits until one of the sources is ready, at most limit; negative: without limit. With read
// it also waits until there may be something of the body to read, and if something is held, until
// there may be room for it. The client's own limit for one of these two ends the wait as well, and
// the next read or SendHeld returns its error.
//
// The error is loop.ErrDeadlineExceeded after limit, or one of loop.Thread.AwaitAny's.
func (d *Duplex) Await(limit time.Duration, read bool, sources ...loop.Source) error {
	if t := d.x.req.Thread; !read && len(sources) == 0 { // a write: see Request.Within
		defer t.Layer().SetBudget(t.Layer().SetBudget(0))
	}
	err := d.x.via.awaitDuplex(limit, read, sources)
	if err != nil && d.x.resp.tap != nil && errors.Is(err, loop.ErrClientGone) {
		return d.x.resp.unlessTapped(err)
	}
	return err
}

// bodyState is how far a body is.
type bodyState uint8

const (
	bodyOver   bodyState = iota // there is no request, or its connection was taken over
	bodyOpen                    // there may be more
	bodyEnded                   // it was read to its end, or there is none
	bodyFailed                  // it is malformed, too large, too slow or cut
	bodyUnread                  // it is left unread, and the connection closes behind the answer
)

// drainLimit is how many bytes of an unread body the server reads to keep the connection. Beyond it
// a new connection is cheaper.
const drainLimit = 256 << 10

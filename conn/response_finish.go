package conn

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// finish sends the part of the response that was not sent yet. status is the one that the handler
// returned.
func (w *Response) finish(status int) {
	switch w.phase {
	case open:
		w.finishWhole(status)
	case streamed:
		w.finishStream(status)
	case aborted:
		if w.hungUp {
			w.status = StatusNoAnswer // to those that log and count
		}
		w.cut(errAborted)
	}
	w.discard()
	if w.phase != hijacked {
		w.phase = complete
	}
	if w.tap != nil {
		w.endTap(errAborted)
	}
}

// finishWhole sends a response of which nothing has gone out.
func (w *Response) finishWhole(status int) {
	status, n, err := w.decideAnswer(status)
	if w.kind == gathered {
		if w.size = int64(len(w.buf)); w.endUncertain {
			w.dropLength()
		}
	}
	if status >= 400 && w.size == 0 && w.manner == native &&
		w.x.subrequest == nil && w.x.background == nil && !w.within() {
		w.setErrorPage(status)
	}
	if w.kind == reader {
		w.dropLarge()
	}
	if e := w.x.background; e != nil && !w.within() {
		e.whole = w.kind == gathered || w.kind == given
	}
	w.sendHead(status, w.buf, w.kind == reader)
	if !w.plan.bare || w.sendsRange() {
		w.sendBody(n, err)
	}
}

// dropLength takes the length from a body that was gathered, and that may not be whole, unless the
// handler has declared it.
//
//go:noinline
func (w *Response) dropLength() {
	if _, ok := w.declared(); !ok {
		w.size = -1
	}
}

// dropLarge closes the connection behind an answer whose reader does not lead to a large body of
// the request.
//
//go:noinline
func (w *Response) dropLarge() {
	body := &w.x.req.body
	if body.read == 0 && body.state == bodyOpen && w.x.req.ContentLength() > drainLimit {
		w.close = true
	}
}

// setErrorPage makes the server's own page of an error the body.
func (w *Response) setErrorPage(status int) {
	w.discard()
	w.header.Set("Content-Type", "text/html; charset=utf-8")
	w.buf = appendErrorPage(w.buf, status)
	w.size = int64(len(w.buf))
}

// decideAnswer returns the status to send. It is the handler's, unless the answer cannot be sent;
// then that answer is dropped for an error page. n and err are what readAhead has returned. It may
// be called again: error pages are chosen by what it returns.
func (w *Response) decideAnswer(status int) (_, n int, err error) {
	if status == 0 {
		status = cmp.Or(w.early, 200)
	}
	if bad := w.header.firstBad(); bad != nil || status < 200 || status > 999 {
		status = w.refuse(status, bad)
	}
	n, err = w.readAhead()
	if failed := w.x.req.body.failure(); failed != 0 || err != nil {
		return w.broken(status, n, err, failed)
	}
	return status, n, nil
}

// refuse makes an error of an answer with a status that is not final, or with a field that is not
// valid. It is apart from decideAnswer, as broken is, so that few cache lines are read for what
// nearly all answers need.
func (w *Response) refuse(status int, bad *Field) int {
	if x := w.x; w.final(status) {
		x.set.Logger.Error("conn: response header refused, not a valid field",
			x.about("name", bad.Name, "value", bad.Value)...)
	}
	w.drop(ErrBadField)
	return 500
}

// broken decides about an answer if the request's body has failed, with that status, or the
// answer's could not be read, or was read to its end. n and err are what readAhead has returned.
func (w *Response) broken(status, n int, err error, failed int) (int, int, error) {
	unreadable := err != nil && err != io.EOF
	if failed != 0 && w.manner == native && (unreadable || !w.hasErrorBody(status)) {
		w.drop(errAborted)
		return failed, 0, nil
	}
	if unreadable {
		w.logReader("conn: response body cannot be read", err)
		w.drop(err)
		return 500, 0, nil
	}
	return status, n, err
}

// sendBody sends the body that the handler has set. n and err are what readAhead has returned.
func (w *Response) sendBody(n int, err error) {
	if w.enc != nil || w.tap != nil {
		w.encodeBody(n, err)
		return
	}
	switch w.kind {
	case gathered:
		if len(w.buf) > 0 { // a chunk without data would be the last one
			err = w.content(w.buf)
		}
	case given:
		err = w.content(w.body)
	case file:
		w.bytes = w.size
		err = w.via.file(w.file, w.off, w.size)
	case reader:
		w.sendFrom(n, err)
		return
	}
	if err == nil {
		w.endBody()
	}
}

// final reports whether status is a final one, and logs a status of a handler that is not.
func (w *Response) final(status int) bool {
	if 200 <= status && status <= 999 {
		return true
	}
	w.x.set.Logger.Error("conn: handler gave no final status", w.x.about("status", status)...)
	return false
}

// hasErrorBody reports whether the answer is the handler's own account of an error, or one of
// OnError, which says more than the server's own page.
func (w *Response) hasErrorBody(status int) bool {
	return (status >= 400 || w.paged) && (w.kind != gathered && w.size != 0 || len(w.buf) > 0)
}

// readAhead reads a first piece from the body's reader if the request's body was not read to its
// end, because the reader may be reading that. A client that waits for 100 (Continue) then gets it
// before the head, and a bad request body can still decide the status.
func (w *Response) readAhead() (int, error) {
	if w.kind != reader || w.size == 0 {
		return 0, nil
	}
	if !w.ahead.done && w.x.req.body.state == bodyOpen && w.req.head.Method != http1.HEAD {
		n, err := w.readPiece(w.copyBuffer(), w.size)
		w.ahead = ahead{true, n, err}
	}
	return w.ahead.n, w.ahead.err
}

// ahead is what readAhead has read of a body, and has in the copy buffer.
type ahead struct {
	done bool
	n    int
	err  error
}

// finishStream ends a body whose head went out before its end was known.
func (w *Response) finishStream(status int) {
	if status != 0 && status != w.status && w.via.writeError() == nil {
		w.x.set.Logger.Warn("conn: status ignored, the head was sent before the handler returned",
			w.x.about("sent", w.status, "returned", status)...)
	}
	if w.stream(w.buf) != nil || (!w.plan.bare || w.sendsRange()) && w.left > 0 {
		w.cut(errShortBody)
		return
	}
	w.buf = w.buf[:0]
	w.endBody()
}

// sendHead gathers the head. w.size is the size of the body, -1 if it is not known. first is the
// beginning of the body, as far as it was gathered. reading: what makes the answer may still read
// the request's body.
func (w *Response) sendHead(status int, first []byte, reading bool) {
	if a := w.x.subrequest; a != nil && !w.within() {
		// The status is all that is wanted of it, or status and body.
		w.phase, w.status, w.left = streamed, status, w.size
		w.plan.bare = a.most == 0 || status == 204 || status == 304
		return
	}
	size := w.size
	if w.tap != nil {
		if w.headTap(status, first) {
			return
		}
		status = w.presentRange(status)
	}
	if w.forced != 0 {
		status = w.forced
	}
	if w.x.protocol != "" && status/100 == 2 {
		status = w.x.upgradeStatus(status)
	}
	if len(w.hooks) > 0 {
		w.runHooks(status, first)
	}
	w.decide(status, first)
	w.plan.reading = reading
	w.phase, w.status, w.left = streamed, status, w.size
	w.via.head(&w.plan)
	if w.sendsRange() {
		w.restoreWhole(size)
	}
}

// decide makes the plan of the head, which reset has left empty.
func (w *Response) decide(status int, first []byte) {
	p := &w.plan
	p.status, p.fields, p.close = status, w.header.fields, w.close
	if status == w.early {
		p.reason = w.reason
	}
	head := w.req.head.Method == http1.HEAD
	p.bare = head || status == 204 || status == 304
	hasType := w.scanHeader()
	p.dated = w.dated
	if !hasType && status != 204 && status != 304 {
		p.contentType = w.impliedType(first)
	}
	switch {
	case status == 204: // no Content-Length (RFC 9110 section 8.6)
	case status == 304: // no length of 0: the client would take it for the representation's
	case w.size < 0 || w.enc != nil:
		p.extent = byEnd
	default:
		p.extent, p.length = byLength, w.size
		if !head {
			break
		}
		if n, ok := w.declared(); ok { // the handler need not have made the body
			p.length = n
		} else if w.manner != native && w.size == 0 {
			p.extent = undelimited // not made, or empty: the server cannot tell
		}
	}
}

// scanHeader looks for the handler's fields that decide something, and reports whether Content-Type
// is among them.
func (w *Response) scanHeader() (hasType bool) {
	p := &w.plan
	configured := w.x.set.Headers
	for i := range w.header.fields {
		f := &w.header.fields[i]
		if len(f.Name) == len("Content-Type") {
			hasType = hasType || f.Name == "Content-Type" || ascii.EqualFold(f.Name, "Content-Type")
		} else if http1.MayHave(decisive, f.Name) {
			w.noteField(f)
		}
		for j := range configured {
			p.overridden = p.overridden || len(f.Name) == len(configured[j].Name) &&
				ascii.EqualFold(f.Name, configured[j].Name)
		}
	}
	return hasType
}

// decisive are the names of noteField.
var decisive = http1.NamesOf("Date", "Upgrade", "Connection", "Transfer-Encoding")

// noteField notes what a field of the handler's decides.
func (w *Response) noteField(f *Field) {
	p := &w.plan
	switch len(f.Name) {
	case len("Date"):
		// Another server's answer keeps its date, from which clients and caches tell its age; a
		// proxy must not change it (RFC 9110 section 6.6.1).
		w.dated = w.dated || w.manner == relayed && ascii.EqualFold(f.Name, "Date")
	case len("Upgrade"):
		p.upgrade = p.upgrade || ascii.EqualFold(f.Name, "Upgrade")
	case len("Connection"):
		if ascii.EqualFold(f.Name, "Connection") {
			p.close = p.close || ascii.HasToken(f.Value, "close")
		}
	case len("Transfer-Encoding"):
		if f.Value == "identity" && ascii.EqualFold(f.Name, "Transfer-Encoding") && !p.bare {
			_, declared := w.declared() // as in net/http, Content-Length goes before
			p.identity = p.identity || !declared
		}
	}
}

// impliedType returns the Content-Type that the server adds where the handler has set none, "" for
// none. first is what the body begins with.
func (w *Response) impliedType(first []byte) string {
	switch {
	case w.manner == sniffed && len(first) > 0:
		return http.DetectContentType(first)
	case w.manner == native && (w.kind == gathered || w.kind == given) && w.size != 0:
		return "text/plain; charset=utf-8"
	}
	return ""
}

// declared returns the Content-Length that the handler has set.
func (w *Response) declared() (int64, bool) {
	text := w.header.Get("Content-Length")
	if text == "" {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err == nil
}

// maxEmptyReads is how many times in a row a reader may return nothing, as in package bufio.
const maxEmptyReads = 100

// sendFrom sends the body from its reader, beginning with what readAhead has read. What one read
// returns goes out before the next read, because the reader may have nothing more for a long time.
func (w *Response) sendFrom(n int, err error) {
	buf := w.copyBuffer()
	for empty := -1; ; { // -1: readAhead may not have read at all
		if n > 0 {
			empty = 0
			if w.piece(buf[:n]) != nil {
				return
			}
			// With an encoder each flush makes the body longer. A read that has filled the buffer
			// has most likely not come to the end of what is there; but if the length is unknown,
			// the next read may wait for long, whatever this one gave.
			if w.left != 0 && (w.enc == nil || n < len(buf) || w.size < 0) && w.push() != nil {
				return
			}
		} else if empty++; empty > maxEmptyReads && err == nil {
			err = io.ErrNoProgress
		}
		if w.left == 0 || err == io.EOF && w.size < 0 {
			w.endBody()
			return
		}
		if err != nil {
			if err == io.EOF {
				err = errShortBody
			}
			w.logReader("conn: response body cut short", err)
			w.cut(err)
			return
		}
		buf = w.pieceBuffer()
		n, err = w.readPiece(buf, w.left)
	}
}

// pieceBuffer returns a buffer for the next piece of a body, no more than the client says that it
// takes. If that is next to nothing it may be so for long: then the piece is only to wait by.
func (w *Response) pieceBuffer() []byte {
	room := w.via.room()
	if room > fewBytes {
		return w.copyBuffer()[:min(streamAt, room)]
	}
	if cap(w.buf) > heldBuffer {
		w.slim()
	}
	if cap(w.buf) < fewBytes {
		w.buf = make([]byte, 0, fewBytes)
	}
	return w.buf[:fewBytes]
}

// logReader logs that the body's reader has failed. It logs nothing if the client has left while
// the reader waited, or if the reader reads a request body that the client has not sent to its end.
func (w *Response) logReader(what string, err error) {
	if errors.Is(err, loop.ErrClientGone) ||
		w.x.req.body.failure() != 0 && errors.Is(err, w.x.req.body.err) {
		return
	}
	w.x.set.Logger.Error(what, w.x.about("error", err)...)
}

// readPiece reads from the source into buf, no more than left bytes if that is not negative.
func (w *Response) readPiece(buf []byte, left int64) (int, error) {
	if left >= 0 {
		buf = buf[:min(int64(len(buf)), left)]
	}
	return w.from.Read(buf)
}

// HeadHook is told of a response whose head is about to be sent. status is the one that goes out,
// whether the handler has chosen it or the server, because the handler has failed. The hook may
// change the header, and let an Encoder encode the body. It may not write, set a body or wait.
type HeadHook func(req *Request, resp *Response, status int)

// BeforeHead lets h be called once, before the head of the final response is sent, on the request's
// thread. Hooks are called last first: what wraps a handler sets its hook before it calls the
// handler, and has the last word. A response that takes the place of another, such as the error
// page of a handler that has panicked, keeps the hooks. They are not called for a response without
// a handler, which is that to a request that cannot be parsed. When a handler takes the connection
// over, they are called with 101 before that, see Hijack.
// In a hook, and once the head has gone out, BeforeHead does nothing.
//
// A field that a hook has set and that is not valid (see Header.Set) is logged and left out.
func (w ResponseLayer) BeforeHead(h HeadHook) {
	w.live()
	if w.phase == open && !w.hooking {
		w.hooks = append(w.hooks, h)
	}
}

// Hooks returns how many hooks and error pages the response has.
func (w ResponseLayer) Hooks() (hooks, pages int) { return len(w.hooks), len(w.pages) }

// DropHooks drops all hooks and error pages but the first of each, for a handler that is not to
// have a part in the answer any more: the request goes to another one.
func (w ResponseLayer) DropHooks(hooks, pages int) {
	if hooks < len(w.hooks) {
		clear(w.hooks[hooks:])
		w.hooks = w.hooks[:hooks]
	}
	if pages < len(w.pages) {
		clear(w.pages[pages:])
		w.pages = w.pages[:pages]
	}
}

func (w *Response) runHooks(status int, first []byte) {
	hooks := w.hooks
	w.hooks = hooks[:0]
	w.hooking, w.first = true, first
	for i := len(hooks) - 1; i >= 0; i-- {
		hook := hooks[i]
		hooks[i] = nil // see reset
		hook(&w.x.req, w, status)
	}
	w.hooking, w.first = false, nil
	if w.header.firstBad() != nil {
		w.dropBad()
	}
}

// dropBad drops the fields that are not valid.
func (w *Response) dropBad() {
	for bad := w.header.firstBad(); bad != nil; bad = w.header.firstBad() {
		w.x.set.Logger.Error("conn: response header left out, not a valid field",
			w.x.about("name", bad.Name, "value", bad.Value)...)
		w.header.Del(bad.Name)
	}
}

// Inform sends an interim response at once: a status of 1xx, but not 101, which is a final one. It
// does nothing if the head of the response has gone out, or if the client speaks HTTP/1.0, which
// has no interim responses (RFC 9110 section 15.2). Fields that are not valid, or that frame a
// message, are left out. An error is from writing; header may be nil.
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
	w.via.interim(status, fields)
	return w.via.flush()
}

// AddTrailer adds a field that is sent behind the body, if that goes out in chunks: the client
// speaks HTTP/1.1, the response is streamed, and Content-Length is not set. Otherwise the field is
// dropped, as one is that is not valid, or that a client needs before the body, such as
// Content-Type or Set-Cookie (RFC 9110 section 6.5.1).
func (w *Response) AddTrailer(name, value string) {
	w.live()
	if (w.phase == open || w.phase == streamed) && !tooLate(name) && http1.ValidToken(name) &&
		http1.ValidFieldValue(value) {
		w.trailer = append(w.trailer, Field{name, value})
	}
}

package conn

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
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
		_ = w.x.cut(errAborted)
	}
	w.discard()
	if w.phase != hijacked {
		w.phase = complete
	}
}

// finishWhole sends a response of which nothing has gone out.
func (w *Response) finishWhole(status int) {
	status, n, err := w.decideAnswer(status)
	if w.kind == gathered {
		w.size = int64(len(w.buf))
	}
	if status >= 400 && w.size == 0 && w.manner == native {
		w.discard()
		w.header.Set("Content-Type", "text/html; charset=utf-8")
		w.buf = appendErrorPage(w.buf, status)
		w.size = int64(len(w.buf))
	}
	if body := &w.x.req.body; w.kind != reader {
		body.skip()
	} else if body.read == 0 && body.left > drainLimit { // the reader does not lead to it
		w.close = true
	}
	w.sendHead(status, w.buf)
	if w.extent != noBody {
		w.sendBody(n, err)
	}
}

// decideAnswer returns the status to send. It is the handler's, unless the answer cannot be sent;
// then that answer is dropped for an error page. n and err are what readAhead has returned.
func (w *Response) decideAnswer(status int) (_, n int, err error) {
	x := w.x
	if status == 0 {
		status = cmp.Or(w.early, 200)
	}
	if !w.final(status) {
		w.clear()
		status = 500
	}
	if bad := w.header.firstBad(); bad != nil {
		x.set.Logger.Error("conn: response header refused, not a valid field",
			"name", bad.Name, "value", bad.Value, "request_id", x.req.ID(),
			"target", x.req.Target())
		w.clear()
		status = 500
	}
	n, err = w.readAhead()
	unreadable := err != nil && err != io.EOF
	if failed := x.req.body.failure(); failed != 0 && w.manner == native &&
		(unreadable || !w.explains(status)) {
		w.clear()
		return failed, 0, nil
	}
	if unreadable {
		w.logReader("conn: response body cannot be read", err)
		w.clear()
		return 500, 0, nil
	}
	return status, n, err
}

// sendBody sends the body that the handler has set. n and err are what readAhead has returned.
func (w *Response) sendBody(n int, err error) {
	x := w.x
	if w.enc != nil {
		w.encodeBody(n, err)
		return
	}
	switch w.kind {
	case gathered:
		w.bytes = w.size
		_ = x.send(w.buf)
	case given:
		w.bytes = w.size
		_ = x.send(w.body)
	case file:
		w.bytes = w.size
		_ = x.sendFile(w.file, w.off, w.size)
	case reader:
		w.sendFrom(n, err)
	}
}

// final reports whether status is a final one, and logs a status of a handler that is not.
func (w *Response) final(status int) bool {
	if 200 <= status && status <= 999 {
		return true
	}
	w.x.set.Logger.Error("conn: handler gave no final status",
		"status", status, "request_id", w.x.req.ID(), "target", w.x.req.Target())
	return false
}

// explains reports whether the answer is the handler's own account of an error, which says more
// than an error page.
func (w *Response) explains(status int) bool {
	return status >= 400 && (w.kind != gathered && w.size != 0 || len(w.buf) > 0)
}

// readAhead reads a first piece from the body's reader if the request's body was not read to its
// end, because the reader may be reading that. A client that waits for 100 (Continue) then gets it
// before the head, and a bad request body can still decide the status.
func (w *Response) readAhead() (int, error) {
	if w.kind != reader || w.x.req.body.err != nil ||
		w.x.req.head.Method == http1.HEAD || w.size == 0 {
		return 0, nil
	}
	return w.readPiece(w.x.copyBuffer(), w.size)
}

// finishStream ends a body whose head went out before its end was known.
func (w *Response) finishStream(status int) {
	if status != 0 && status != w.status && w.x.writeErr == nil {
		w.x.set.Logger.Warn("conn: status ignored, the head was sent before the handler returned",
			"sent", w.status, "returned", status, "request_id", w.x.req.ID(),
			"target", w.x.req.Target())
	}
	if w.stream(w.buf) != nil || w.extent != noBody && w.left > 0 {
		_ = w.x.cut(errShortBody)
		return
	}
	w.buf = w.buf[:0]
	w.endBody()
}

// appendEnd ends a chunked body.
func (w *Response) appendEnd(out []byte) []byte {
	if len(w.trailer) == 0 {
		return append(out, http1.LastChunk...)
	}
	out = append(out, "0\r\n"...)
	for _, f := range w.trailer {
		out = http1.AppendField(out, f.Name, f.Value)
	}
	return append(out, "\r\n"...)
}

// sendHead gathers the head. w.size is the size of the body, -1 if it is not known. first is the
// beginning of the body, as far as it was gathered.
func (w *Response) sendHead(status int, first []byte) {
	x := w.x
	if w.asked { // the status is all that is wanted of it
		w.phase, w.status, w.extent = streamed, status, noBody
		return
	}
	if w.forced != 0 {
		status = w.forced
	}
	if len(w.hooks) > 0 {
		w.runHooks(status, first)
	}
	w.phase, w.status, w.left = streamed, status, w.size
	w.noteDate()
	w.decideExtent()
	w.decideClose()
	reason := ""
	if status == w.early {
		reason = w.reason
	}
	out := appendStatusLine(x.out, status, reason)
	out = w.appendStanding(out)
	out, hasType, upgrade := w.appendOwn(out)
	if !hasType && status != 204 && status != 304 {
		if t := w.impliedType(first); t != "" {
			out = http1.AppendField(out, "Content-Type", t)
		}
	}
	out = w.appendExtent(out)
	if upgrade { // Connection names Upgrade, even for an offer with 426 (RFC 9110 section 7.8)
		out = append(out, "Connection: Upgrade\r\n"...)
	}
	if w.close {
		out = append(out, "Connection: close\r\n"...)
	} else if x.req.head.Minor == 0 {
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	x.out = append(out, "\r\n"...)
	w.before = x.writing.Bytes() + int64(len(x.out))
	if x.req.head.Method == http1.HEAD {
		w.extent = noBody // whatever the head says of the body that GET would get
	}
}

// decideExtent decides what the head says about the length of the body.
func (w *Response) decideExtent() {
	h := &w.x.req.head
	switch {
	case w.status == 204: // no Content-Length (RFC 9110 section 8.6)
	case w.status == 304: // no length of 0: the client would take it for the representation's
	case w.size >= 0 && w.enc == nil:
		w.extent = byLength
	case h.Minor >= 1:
		w.extent = inChunks
	case h.Method != http1.HEAD:
		w.extent = byClose
		w.close = true
	}
}

// endByClose lets the end of the connection end the body, because the handler has set
// Transfer-Encoding to identity. As in net/http, a Content-Length of the handler goes before.
func (w *Response) endByClose() {
	if _, ok := w.declared(); !ok && w.extent != noBody && w.x.req.head.Method != http1.HEAD {
		w.extent, w.close = byClose, true
	}
}

// noteDate keeps the date of another server's answer, from which clients and caches tell its age; a
// proxy must not change it (RFC 9110 section 6.6.1).
func (w *Response) noteDate() {
	w.dated = w.dated || w.manner == relayed && w.header.Has("Date")
}

// appendOwn adds the handler's fields, except those that the server sets itself. It reports whether
// Content-Type and Upgrade are among them. If Connection is, and says close, the connection ends
// with this response; for Transfer-Encoding see endByClose.
func (w *Response) appendOwn(out []byte) (_ []byte, hasType, upgrade bool) {
	for i := range w.header.fields {
		f := &w.header.fields[i]
		switch len(f.Name) {
		case len("Content-Type"):
			hasType = hasType || ascii.EqualFold(f.Name, "Content-Type")
		case len("Upgrade"):
			upgrade = upgrade || ascii.EqualFold(f.Name, "Upgrade")
		case len("Date"):
			if !w.dated && ascii.EqualFold(f.Name, "Date") {
				continue
			}
		case len("Connection"): // and Keep-Alive
			if ascii.EqualFold(f.Name, "Connection") {
				w.close = w.close || ascii.HasToken(f.Value, "close")
				continue
			}
			if ascii.EqualFold(f.Name, "Keep-Alive") {
				continue
			}
		case len("Content-Length"):
			if ascii.EqualFold(f.Name, "Content-Length") {
				continue
			}
		case len("Transfer-Encoding"):
			if ascii.EqualFold(f.Name, "Transfer-Encoding") {
				if f.Value == "identity" {
					w.endByClose()
				}
				continue
			}
		}
		out = http1.AppendField(out, f.Name, f.Value)
	}
	return out, hasType, upgrade
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

// appendExtent adds the field that frames the body.
func (w *Response) appendExtent(out []byte) []byte {
	switch w.extent {
	case inChunks:
		return append(out, "Transfer-Encoding: chunked\r\n"...)
	case byLength:
		n := w.size
		if w.x.req.head.Method == http1.HEAD { // the handler need not have made the body
			if d, ok := w.declared(); ok {
				n = d
			} else if w.manner != native && n == 0 {
				return out // not made, or empty: the server cannot tell
			}
		}
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, n, 10)
		return append(out, "\r\n"...)
	}
	return out
}

// decideClose decides whether the connection ends with this response: because the client wants it
// (RFC 9112 section 9.3), because the rest of the request's body will not be read, or because the
// server stops or leaves. (For the handler's wish see appendOwn.)
func (w *Response) decideClose() {
	if w.close || w.x.req.raw == nil || w.x.c.outdated() {
		w.close = true
		return
	}
	h := &w.x.req.head
	w.x.req.body.look()
	leaving := w.x.set.Leaving || w.x.c.Loop().Stopping()
	last := leaving && w.x.r == w.x.w // pipelined requests are in flight, too
	w.close = !h.Persistent() || w.x.req.body.mustClose() || last
}

// appendStanding adds the date, and the configured fields that the handler has not set itself.
func (w *Response) appendStanding(out []byte) []byte {
	p, set := w.x.c.port, w.x.set
	p.refresh(set)
	overridden := w.dated
	for i := range w.header.fields {
		for j := range set.Headers {
			overridden = overridden || ascii.EqualFold(w.header.fields[i].Name, set.Headers[j].Name)
		}
	}
	if !overridden {
		return append(out, p.fields...)
	}
	if !w.dated {
		out = append(out, p.date...)
	}
	for _, f := range set.Headers {
		if !w.header.Has(f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			out = http1.AppendField(out, f.Name, f.Value)
		}
	}
	return out
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
	x := w.x
	buf := x.copyBuffer()
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
			_ = w.x.cut(err)
			return
		}
		n, err = w.readPiece(buf, w.left)
	}
}

// logReader logs that the body's reader has failed. It logs nothing if the client has left while
// the reader waited, or if the reader reads a request body that the client has not sent to its end.
func (w *Response) logReader(what string, err error) {
	if errors.Is(err, loop.ErrClientGone) ||
		w.x.req.body.failure() != 0 && errors.Is(err, w.x.req.body.err) {
		return
	}
	w.x.set.Logger.Error(what, "error", err, "request_id", w.x.req.ID(),
		"target", w.x.req.Target())
}

// readPiece reads from the source into buf, no more than left bytes if that is not negative.
func (w *Response) readPiece(buf []byte, left int64) (int, error) {
	if left >= 0 {
		buf = buf[:min(int64(len(buf)), left)]
	}
	return w.from.Read(buf)
}

package conn

import (
	"strconv"
	"time"

	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// This file writes answers in HTTP/1.1 (RFC 9112).

// head implements carrier.
func (t *turn) head(p *plan) {
	t.delimit(p)
	t.last = t.closes(p)
	if t.body.state == bodyOpen {
		// A conversation, as gRPC has them: the client may wait for the handler, and is not silent as
		// long as it takes what that says.
		t.reading.MinRate = 0
		t.writing.ResetSilenceOf(&t.reading)
	}
	out := appendStatusLine(t.out, p.status, p.reason)
	out = t.appendServerFields(out, p)
	out = appendOwn(out, p)
	if p.contentType != "" {
		out = http1.AppendField(out, "Content-Type", p.contentType)
	}
	switch {
	case t.delimited == inChunks:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case p.extent == byLength && t.delimited == plain:
		out = append(out, "Content-Length: "...)
		out = append(strconv.AppendInt(out, p.length, 10), "\r\n"...)
	}
	if p.upgrade || t.last || t.x.req.head.Minor == 0 {
		out = t.appendConnection(out, p)
	}
	t.out = append(out, "\r\n"...)
	if p.bare { // whatever the head says of the content that GET would get
		t.delimited = plain
	}
	t.before = t.writing.Bytes() + int64(len(t.out))
}

// appendConnection adds the Connection fields. It is not inlined, nor are the other functions here
// that few answers need, so that head takes fewer cache lines.
//
//go:noinline
func (t *turn) appendConnection(out []byte, p *plan) []byte {
	if p.upgrade { // Connection names Upgrade, even for an offer with 426 (RFC 9110 section 7.8)
		out = append(out, "Connection: Upgrade\r\n"...)
	}
	if t.last {
		return append(out, "Connection: close\r\n"...)
	}
	if t.x.req.head.Minor == 0 {
		out = append(out, "Connection: keep-alive\r\n"...)
	}
	return out
}

// delimit decides how the client finds the end of the content.
func (t *turn) delimit(p *plan) {
	h := &t.x.req.head
	t.delimited = plain
	switch {
	case p.identity:
		t.delimited, p.close = byClose, true
	case p.extent != byEnd:
	case h.Minor >= 1:
		t.delimited = inChunks
	case !p.bare:
		t.delimited, p.close = byClose, true
	}
}

// closes decides whether the connection ends with the present answer: because the handler or the
// client wants it (RFC 9112 section 9.3), because the rest of the request's body will not be read,
// or because the server stops or leaves. Where nothing reads the body any more, skip decides first.
func (t *turn) closes(p *plan) bool {
	b := &t.x.req.body
	ended := t.body.state == bodyEnded && b.state == bodyEnded && !b.ask // as most are: there is none
	if !ended && !p.reading {
		t.skip()
	}
	h := &t.x.req.head
	if p.close || t.x.req.raw == nil || !h.Persistent() || t.c.outdated() {
		return true
	}
	if !ended {
		if t.decodeFraming(); t.nothingBehind() {
			return true
		}
	}
	leaving := t.set.Leaving || t.c.Loop().Stopping()
	return leaving && t.r == t.w // pipelined requests are in flight, too
}

// appendServerFields adds the date, and the configured fields that the handler has not set itself.
func (t *turn) appendServerFields(out []byte, p *plan) []byte {
	at := t.c.port
	at.refresh(t.set)
	switch {
	case !p.overridden && p.dated:
		return append(out, at.fields[len(at.date):]...)
	case !p.overridden:
		return append(out, at.fields...)
	case !p.dated:
		out = append(out, at.date...)
	}
	return appendConfigured(out, p, t.set)
}

// appendConfigured adds the configured fields that the handler has not set itself, one by one.
//
//go:noinline
func appendConfigured(out []byte, p *plan, set *settings) []byte {
	for _, f := range set.Headers {
		if !has(p.fields, f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			out = http1.AppendField(out, f.Name, f.Value)
		}
	}
	return out
}

// appendOwn adds the handler's fields, except those that the server sets itself.
func appendOwn(out []byte, p *plan) []byte {
	for i := range p.fields {
		f := &p.fields[i]
		if http1.MayHave(serverSet, f.Name) && setByServer(f.Name, p.dated) {
			continue
		}
		out = http1.AppendField(out, f.Name, f.Value)
	}
	return out
}

// upgrade implements carrier. The handler's Connection field goes out, and nothing frames a
// content.
func (t *turn) upgrade(p *plan) {
	out := t.appendServerFields(appendStatusLine(t.out, p.status, ""), p)
	for _, f := range p.fields {
		out = http1.AppendField(out, f.Name, f.Value)
	}
	t.out = append(out, "\r\n"...)
}

// interim implements carrier. HTTP/1.0 has no interim responses (RFC 9110 section 15.2). Fields
// that are not valid, or that frame a message, are left out.
func (t *turn) interim(status int, fields []Field) {
	if t.x.req.head.Minor == 0 {
		return
	}
	t.out = appendStatusLine(t.out, status, "")
	for _, f := range fields {
		// Framing would be taken for the final response's.
		if !http1.Framing(f.Name) && http1.ValidToken(f.Name) && http1.ValidFieldValue(f.Value) {
			t.out = http1.AppendField(t.out, f.Name, f.Value)
		}
	}
	t.out = append(t.out, "\r\n"...)
}

// data implements carrier.
func (t *turn) data(p []byte) error {
	if t.delimited != inChunks {
		return t.send(p)
	}
	t.out = http1.AppendChunkHeader(t.out, len(p))
	if err := t.send(p); err != nil {
		return err
	}
	t.out = append(t.out, "\r\n"...)
	return nil
}

// file implements carrier. On a plain connection it does not copy the bytes.
func (t *turn) file(f File, off, n int64) error {
	if t.delimited != inChunks {
		return t.sendFile(f, off, n)
	}
	t.out = http1.AppendChunkHeader(t.out, int(n))
	if err := t.sendFile(f, off, n); err != nil {
		return err
	}
	t.out = append(t.out, http1.ChunkEnd...)
	return nil
}

// end implements carrier. Fields can stand behind chunks only.
func (t *turn) end(trailer []Field) {
	if t.delimited != inChunks {
		return
	}
	if len(trailer) == 0 {
		t.out = append(t.out, http1.LastChunk...)
		return
	}
	t.out = append(t.out, "0\r\n"...)
	for _, f := range trailer {
		t.out = http1.AppendField(t.out, f.Name, f.Value)
	}
	t.out = append(t.out, "\r\n"...)
}

// writeError implements carrier.
func (t *turn) writeError() error { return t.writeErr }

// sent implements carrier. If the answer has broken off, not all that was framed has been sent.
func (t *turn) sent(n int64) int64 {
	if t.writeErr == nil {
		return n
	}
	return max(min(n, t.writing.Bytes()-int64(t.unsent)-t.before), 0)
}

// setReadDeadline implements carrier.
func (t *turn) setReadDeadline(by time.Time) { _ = t.stream.SetReadDeadline(by) }

// setWriteDeadline implements carrier.
func (t *turn) setWriteDeadline(by time.Time) { _ = t.stream.SetWriteDeadline(by) }

// setMaxRate implements carrier.
func (t *turn) setMaxRate(n int64) (was int64) {
	was, t.writing.MaxRate = t.writing.MaxRate, n
	return was
}

// setMinRate implements carrier.
func (t *turn) setMinRate(n int) { t.writing.MinRate = max(t.set.MinRate, n) }

// setBodyTimeout implements carrier.
func (t *turn) setBodyTimeout(d time.Duration) { setSilence(&t.reading, d, t.set) }

// paces implements carrier.
func (t *turn) paces() (reading, writing *stream.Pace) { return &t.reading, &t.writing }

// spend implements carrier.
func (t *turn) spend(n int) { t.stream.SpendOn(n) }

// beginDuplex implements carrier.
func (t *turn) beginDuplex() { t.stream.Duplex(&t.duplex) }

// endDuplex implements carrier.
func (t *turn) endDuplex() { _ = t.wrote(0, t.duplex.End()) }

// dropDuplex implements carrier.
func (t *turn) dropDuplex() { t.stream.Duplex(nil) }

// held implements carrier.
func (t *turn) held() int { return t.duplex.Held() }

// room implements carrier.
func (t *turn) room() int { return unlimited }

// sendHeld implements carrier.
func (t *turn) sendHeld() (left int, err error) {
	left, err = t.duplex.SendHeld()
	if err = t.wrote(left, err); err == nil {
		err = t.writeErr
	}
	return left, err
}

// awaitDuplex implements carrier.
func (t *turn) awaitDuplex(limit time.Duration, read bool, sources []loop.Source) error {
	return t.duplex.Await(limit, read, sources...)
}

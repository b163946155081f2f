package cgi

import (
	"bytes"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
)

const (
	// HeaderLimit is what a response's header may take unless another limit is set. 4 and 8 KiB, common elsewhere,
	// are the subject of many complaints: a few cookies and the headers of a debugging tool exceed them.
	HeaderLimit = 64 << 10
	// MaxFields is how many fields it may have. The limit on its size does not replace this one: three bytes make a
	// field line, and a Field takes ten times that.
	MaxFields = 1024
	// keptBuffer is the size up to which the buffer of one response is kept for the next.
	keptBuffer = 8 << 10
)

// Buffering is what X-Accel-Buffering asks for.
type Buffering uint8

// Values of Buffering. Unset is what the configuration says.
const (
	Unset Buffering = iota
	Buffered
	Unbuffered
)

// Header is the header of a response, and its resumable parser: Parse is given STDOUT in pieces of any size, until
// it says done. The fields are good then. The zero value is ready, with HeaderLimit; Reset makes it ready for
// another.
//
// Lines end in LF or CRLF, since programs write either; RFC 3875 section 6 leaves it to the system. Beyond that it
// is as strict as with a client: what is sent on has to be a header that no recipient reads in two ways.
type Header struct {
	Limit int // bytes of header; 0 means HeaderLimit

	Status int    // 200 to 599
	Reason string // what stood behind the number, perhaps nothing
	Length int64  // Content-Length, -1 where there is none or none that is a number
	Fields []Field

	// Not among Fields, as it is not for the client:
	Redirect  string // X-Accel-Redirect
	Sendfile  string // X-Sendfile
	Buffering Buffering

	// For the log: the body is passed on as it is.
	Coding     string // Transfer-Encoding
	SecondType string // a Content-Type that is not the first one's

	buf    []byte // what was given so far
	line   int    // where the current line begins in it
	lines  []line
	state  headerState
	failed *wire.Error
}

// A line is a field line by positions, as buf moves while it grows.
type line struct{ name, colon, value, end int32 }

type headerState uint8

const (
	inHeader headerState = iota
	headerDone
	headerBroken
)

// Parse takes the next piece of STDOUT, of which the header uses n bytes; when done, p[n:] is the begin of the
// body. An error is always a *wire.Error and comes back from every later call. If the response ends before done it
// is ErrIncomplete, which is for the caller to see.
func (h *Header) Parse(p []byte) (n int, done bool, err error) {
	limit := h.Limit
	if limit <= 0 {
		limit = HeaderLimit
	}
	for h.state == inHeader {
		rest := p[n:]
		i := bytes.IndexByte(rest, '\n')
		whole := i >= 0
		if whole {
			rest = rest[:i+1]
		}
		if len(rest) > limit-len(h.buf) {
			return h.fail(ErrHeaderSize, n)
		}
		h.buf = append(h.buf, rest...)
		n += len(rest)
		if !whole {
			return n, false, nil
		}
		end := len(h.buf) - 1
		if end > h.line && h.buf[end-1] == '\r' {
			end--
		}
		if end == h.line {
			if e := h.finish(); e != nil {
				return h.fail(e, n)
			}
			h.state = headerDone
			break
		}
		if e := h.field(end); e != nil {
			return h.fail(e, n)
		}
		h.line = len(h.buf)
	}
	if h.state == headerBroken {
		return n, false, h.failed
	}
	return n, true, nil
}

// field notes the field line that ends before end.
func (h *Header) field(end int) *wire.Error {
	text := h.buf[h.line:end]
	switch {
	case text[0] == ' ' || text[0] == '\t':
		return ErrFold
	case h.line == 0 && bytes.HasPrefix(text, []byte("HTTP/")):
		return ErrNPH
	}
	colon := bytes.IndexByte(text, ':')
	if colon < 0 || !http1.ValidToken(text[:colon]) { // white space before the colon hides a field from some readers
		return ErrName
	}
	from := colon + 1
	for from < len(text) && (text[from] == ' ' || text[from] == '\t') {
		from++
	}
	value := ascii.TrimOWS(text[from:])
	if !http1.ValidFieldValue(value) {
		return ErrValue
	}
	if len(h.lines) == MaxFields {
		return ErrFieldCount
	}
	from += h.line
	h.lines = append(h.lines, line{int32(h.line), int32(h.line + colon), int32(from), int32(from + len(value))})
	return nil
}

func (h *Header) fail(e *wire.Error, n int) (int, bool, error) {
	h.state, h.failed = headerBroken, e
	return n, false, e
}

// Reset makes h ready for the next response, with the same limit. It keeps memory, but nothing that was in it.
func (h *Header) Reset() {
	clear(h.Fields)
	fields, buf, lines := h.Fields[:0], h.buf[:0], h.lines[:0]
	if cap(buf) > keptBuffer {
		fields, buf, lines = nil, nil, nil
	}
	*h = Header{Limit: h.Limit, Fields: fields, buf: buf, lines: lines}
}

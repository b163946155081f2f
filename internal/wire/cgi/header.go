package cgi

import (
	"bytes"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

const (
	// HeaderLimit is how many bytes a response's header may have, unless another limit is set. 4
	// and 8 KiB are common elsewhere, and the subject of many complaints: a few cookies and the
	// headers of a debugging tool exceed them.
	HeaderLimit = 64 << 10
	// MaxFields is how many fields it may have. The limit on its size does not replace this one: a
	// field line may have three bytes, and a Field takes ten times that.
	MaxFields = 1024
	// maxKeptBuffer is the size up to which Reset keeps the buffer.
	maxKeptBuffer = 8 << 10
	// maxKeptLines is the number of lines up to which it keeps these.
	maxKeptLines = 128
)

// Buffering is what X-Accel-Buffering asks for.
type Buffering uint8

// Values of Buffering. With its zero value the configuration decides.
const (
	Buffered Buffering = 1 + iota
	Unbuffered
)

// Header is the header of a response, and its parser. The caller gives Parse the pieces of STDOUT,
// of any size, until it returns done. Then the fields are valid. The zero value is ready, with
// HeaderLimit; Reset makes it ready for another response.
//
// Lines end in LF or CRLF, since programs write either, and RFC 3875 section 6 leaves it to the
// system. Beyond that the parser is as strict as with a client: no two recipients may understand
// the header in different ways.
type Header struct {
	Limit int // bytes of header; 0 means HeaderLimit

	// StatusLine says that the header may begin with a status line of HTTP, as uWSGI writes it.
	StatusLine bool

	headerResult
	Fields []Field

	buf   []byte // earlier pieces
	lines []line
}

// headerResult is the content of one header, and the progress of its parser.
type headerResult struct {
	Status int    // 200 to 999; from a status line also 100 to 199 but 101, see Interim
	Reason string // the text behind the number, perhaps empty
	Length int64  // Content-Length; -1: there is none, or it is no number
	Digits string // the same as text

	// HasControl says that one of the following is set.
	HasControl bool

	// Not among Fields, since they are for the server:
	Redirect  string // X-Accel-Redirect
	Sendfile  string // X-Sendfile
	Expires   string // X-Accel-Expires, the first one
	Buffering Buffering

	// For the log: the body is passed on as it is.
	Coding     string // Transfer-Encoding
	SecondType string // a Content-Type that is not the first one's

	line   int // where the current line begins in the header
	state  headerState
	failed *Error

	// For finish.
	location   bool
	lengths    bool
	connection bool
	mediaType  string // the first one
}

// A line is a field line. It has positions, as buf moves while it grows.
type line struct{ name, colon, value, end int32 }

type headerState uint8

const (
	inHeader headerState = iota
	headerDone
	headerBroken
)

// Parse takes the next piece of STDOUT, of which the header uses n bytes. When done, p[n:] is the
// begin of the body. An error is always a *Error, and every later call returns it again. If the
// response ends before done, the caller has to report ErrIncomplete.
//
// A header that comes in one piece, as most do, is read where it is.
func (h *Header) Parse(p []byte) (n int, done bool, err error) {
	if h.state != inHeader {
		return h.afterEnd()
	}
	old := len(h.buf)
	buf := p
	if old > 0 {
		buf = append(h.buf, p...)
		h.buf = buf[:old]
	}
	limit := h.Limit
	if limit <= 0 {
		limit = HeaderLimit
	}
	for at := old; ; at = h.line {
		i := bytes.IndexByte(buf[at:], '\n')
		end := at + i // of the line
		if i < 0 {
			end = len(buf) - 1
		}
		switch {
		case end >= limit:
			return h.fail(ErrHeaderSize, at-old)
		case i < 0:
			h.buf = append(h.buf, p...)
			return len(p), false, nil
		}
		next := end + 1
		if end > h.line && buf[end-1] == '\r' {
			end--
		}
		if end == h.line {
			if e := h.finish(string(buf[:end])); e != nil {
				return h.fail(e, next-old)
			}
			h.state = headerDone
			return next - old, true, nil
		}
		if e := h.field(buf[h.line:end]); e != nil {
			return h.fail(e, next-old)
		}
		h.line = next
	}
}

// afterEnd is Parse after the end of the header, or after an error.
//
//go:noinline
func (h *Header) afterEnd() (n int, done bool, err error) {
	if h.state == headerBroken {
		return 0, false, h.failed
	}
	return 0, true, nil
}

// field notes a field line.
func (h *Header) field(text []byte) *Error {
	colon := bytes.IndexByte(text, ':')
	// White space before the colon, which is no part of a token, hides a field from some readers.
	if colon < 0 || !http1.ValidToken(text[:colon]) {
		return h.badLine(text)
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
	h.lines = append(h.lines, line{int32(h.line), int32(h.line + colon), int32(from),
		int32(from + len(value))})
	return nil
}

// badLine returns the error of a line that is no field line, unless it is a status line.
//
//go:noinline
func (h *Header) badLine(text []byte) *Error {
	switch {
	case text[0] == ' ' || text[0] == '\t':
		return ErrFold
	case h.line > 0 || !bytes.HasPrefix(text, []byte("HTTP/")):
		return ErrName
	case !h.StatusLine:
		return ErrNPH
	}
	return h.statusLine(string(text))
}

//go:noinline
func (h *Header) fail(e *Error, n int) (int, bool, error) {
	h.state, h.failed = headerBroken, e
	return n, false, e
}

// Interim reports whether it is the header of an interim response, which another header follows.
func (h *Header) Interim() bool { return h.Status < 200 }

// Reset makes h ready for the next response, with the same Limit and StatusLine. It keeps memory,
// but not its contents.
func (h *Header) Reset() {
	clear(h.Fields)
	h.headerResult, h.Fields, h.buf, h.lines = headerResult{}, h.Fields[:0], h.buf[:0], h.lines[:0]
	if cap(h.buf) > maxKeptBuffer || cap(h.lines) > maxKeptLines {
		h.Fields, h.buf, h.lines = nil, nil, nil
	}
}

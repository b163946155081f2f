package http1

import (
	"math"

	"github.com/lwango/lwango/internal/base/ascii"
)

// maxEmptyLines is how many CRLFs may stand before a request. RFC 9112 section 2.2 asks for one at
// least (old clients sent one behind a POST body); without an end, a client could keep a connection
// busy forever with no request to time.
const maxEmptyLines = 8

// MaxFields is the number of field lines a head may have, unless its FieldLimit is higher. The size
// limit of the caller does not replace it: four bytes make a field line and sixteen a Field, so the
// array would grow to four times the size of the head, and stay.
const MaxFields = 256

// A Head is a request head, filled by Parse from bytes as they arrive. The zero value is ready for
// use; Reset makes it ready again. All spans are positions in the buffer given to Parse. The fields
// mean something once Parse has returned the length of the head; after an error Minor and Target
// may be of use to a log. Method is set as soon as it has come, also of a request line that is
// incomplete or invalid: the answer to HEAD has no content, whatever it is (RFC 9110 section
// 9.3.2). Not safe for use by several goroutines at once.
type Head struct {
	message

	Method   Method
	Asterisk bool // "OPTIONS *": the server as a whole (RFC 9112 section 3.2.4)
	Absolute bool // the target has a scheme and an authority
	Secure   bool // and the scheme is https

	Name   Span // of the method
	Target Span // as sent
	// raw; empty for CONNECT, for Asterisk, and for an absolute target without a path, which means
	// "/"
	Path  Span
	Query Span // raw, without the '?'
	// effective authority (RFC 9112 section 3.3), raw, port included; empty where the client named
	// none
	Host Span

	FieldLimit int  // the caller's, after Reset: how many Fields there may be; at least MaxFields
	Expect100  bool // the client waits for 100 (Continue) before it sends the body there is

	// Progress of Parse.
	seen       seenFields
	emptyLines uint8
}

// seenFields notes field lines for the check at the end of the head.
type seenFields uint8

const (
	hostSeen seenFields = 1 << iota
	expectSeen
)

// Reset makes h ready for the next head. It keeps the array of Fields.
func (h *Head) Reset() {
	fields := h.Fields[:0]
	*h = Head{} // a literal with the fields below would be copied
	h.Fields, h.ContentLength = fields, -1
}

// Parse reads on in a head. buf is all of the message received so far; between calls it may have
// grown and moved, but not changed. Only lines not seen complete before are looked at, so a head
// that comes byte by byte costs no more than its length, and any split gives the same result. n is
// 0 with a nil error while more bytes are needed, then the length of the head with the empty lines
// before and after it: the body, or the next request, begins at buf[n]. An error is always an
// *Error, and then every later call returns it. How long a head may get is for the caller to limit;
// see InRequestLine. Parse allocates only to let Fields grow.
func (h *Head) Parse(buf []byte) (n int, err error) {
	switch h.stage {
	case inFirstLine:
		if len(buf) > math.MaxUint32 { // spans could not point there
			return h.fail(ErrHeadSize)
		}
		more, e := h.begin(buf)
		if e != nil {
			return h.fail(e)
		}
		if !more {
			return 0, nil
		}
	case complete:
		return h.line, nil
	case broken:
		return 0, h.failed
	}
	for {
		if h.searched == h.line { // no part of the line was looked at before
			end, e := h.parseFast(buf, h.line)
			if e != nil {
				return h.fail(e)
			}
			h.line, h.searched = end, end
			if h.stage == complete {
				return end, nil
			}
		}
		if more, err := h.parseLine(buf); !more || err != nil {
			return 0, err
		}
		if h.stage == complete {
			return h.line, nil
		}
	}
}

// parseLine parses a line that parseFast has left. more is false if it is not complete.
func (h *Head) parseLine(buf []byte) (more bool, err error) {
	start := h.line
	if h.stage == inFirstLine && longMethod(buf[start:]) {
		_, err = h.fail(ErrMethod)
		return false, err
	}
	_, end, e := h.nextLine(buf, false)
	if e != nil || end < 0 {
		h.setMethod(buf[start:])
	}
	switch {
	case e != nil:
		_, err = h.fail(e)
		return false, err
	case end < 0:
		return false, nil
	case h.stage == inFirstLine:
		e = h.requestLine(buf, start, end)
		h.stage = inFields
	case start == end:
		if e = h.finish(); e == nil {
			h.stage = complete
		}
	default:
		e = h.field(buf, start, end)
	}
	if e != nil {
		_, err = h.fail(orBareCR(e, buf[start:end]))
	}
	return true, err
}

// parseFast parses complete and usual lines from start on, each in one pass, which finds the end of
// the line, too. It returns where the first other line begins, which is left to Parse. With an
// error, end is the beginning of the wrong line.
func (h *Head) parseFast(buf []byte, start int) (end int, e *Error) {
	if h.stage == inFirstLine {
		rest := buf[start:]
		method := tokenLen(rest)
		if method >= len(rest) || rest[method] != ' ' {
			return start, nil
		}
		from := method + 1
		to := from + targetLen(rest[from:])
		m := parseMethod(rest[:method])
		if m == 0 || method > maxMethod || from == to || !startsWith(rest[to:], " HTTP/1.1\r\n") {
			return start, nil
		}
		h.Method, h.Minor, h.ContentLength, h.stage = m, 1, -1, inFields
		h.Name = Span{uint32(start), uint32(start + method)}
		if e = h.target(buf, start+from, start+to); e != nil {
			return start, e
		}
		start += to + len(" HTTP/1.1\r\n")
	}
	for {
		colon, end := fieldLine(buf[start:])
		switch {
		case end > 0:
			if e = h.Add(buf, start, start+colon, start+end); e != nil {
				return start, e
			}
			start += end + 2
		case !startsWith(buf[start:], "\r\n"):
			return start, nil
		default:
			if e = h.finish(); e == nil {
				h.stage = complete
				start += 2
			}
			return start, e
		}
	}
}

// fieldLine returns where the colon and the CRLF of the field line are that rest begins with. end
// is 0 if the line is not complete, or not valid.
func fieldLine(rest []byte) (colon, end int) {
	for len(rest)-colon >= 4 { // four at a time, as there is much of this
		b := (*[4]byte)(rest[colon:])
		if class[b[0]]&class[b[1]]&class[b[2]]&class[b[3]]&isTchar == 0 {
			break
		}
		colon += 4
	}
	for colon < len(rest) && class[rest[colon]]&isTchar != 0 {
		colon++
	}
	if colon == 0 || colon >= len(rest) || rest[colon] != ':' {
		return 0, 0
	}
	end = colon + 1 + valueLen(rest[colon+1:])
	if !startsWith(rest[end:], "\r\n") {
		return 0, 0
	}
	return colon, end
}

// startsWith is bytes.HasPrefix with a constant.
func startsWith(b []byte, s string) bool { return len(b) >= len(s) && string(b[:len(s)]) == s }

// InRequestLine reports whether the request line is still incomplete: a head that grows too large
// is then answered with 414 (URI Too Long), afterwards with 431 (Request Header Fields Too Large).
func (h *Head) InRequestLine() bool { return h.stage == inFirstLine }

// HasBody reports whether bytes of a body follow the head. Without a framing field there is none
// (RFC 9112 section 6.3 (7)).
func (h *Head) HasBody() bool { return h.Chunked || h.ContentLength > 0 }

// Get returns the value of the first field of that name, in any case of letters, and whether there
// is one. buf is the buffer last given to Parse; the value is a part of it.
func (h *Head) Get(buf []byte, name string) ([]byte, bool) {
	if !h.MayHave(name) {
		return nil, false
	}
	for i := range h.Fields {
		if f := &h.Fields[i]; ascii.EqualFold(f.Name.Of(buf), name) {
			return f.Value.Of(buf), true
		}
	}
	return nil, false
}

// begin skips empty lines before the request and looks at its first byte. That byte alone tells a
// request from a TLS hello or a binary protocol, whose client would wait for our answer while we
// wait for its line end. more is false if there is nothing to parse.
func (h *Head) begin(buf []byte) (more bool, e *Error) {
	for h.line < len(buf) {
		switch c := buf[h.line]; {
		case class[c]&isTchar != 0:
			h.searched = max(h.searched, h.line)
			return true, nil
		case c == '\n':
			return false, ErrBareLF
		case c == ' ' || c == '\t':
			return false, ErrFold
		case c != '\r':
			return false, ErrMethodSyntax
		case h.line+1 == len(buf):
			return false, nil
		case buf[h.line+1] != '\n':
			return false, ErrBareCR
		case h.emptyLines == maxEmptyLines:
			return false, ErrEmptyLines
		}
		h.emptyLines++
		h.line += 2
	}
	return false, nil
}

// setMethod sets the method by the beginning of a request line, if it is one that matters to the
// answer. It only looks at the length of the longest method, since it is called for each piece of a
// line.
func (h *Head) setMethod(line []byte) {
	if h.stage == inFirstLine {
		line = line[:min(len(line), maxMethod)]
		h.Method = knownMethod(line[:tokenLen(line)])
	}
}

// longMethod reports that a line begins with a method that is too long. It is checked before other
// errors of the line, so that the answer does not depend on how the line is split.
func longMethod(line []byte) bool {
	return len(line) > maxMethod && tokenLen(line[:maxMethod+1]) > maxMethod
}

// finish checks what only the whole head shows.
func (h *Head) finish() *Error {
	if h.seen&hostSeen == 0 && h.Minor == 1 {
		// Section 3.2 of RFC 9112 demands it even beside an absolute target, which overrides it.
		return ErrHostMissing
	}
	if h.Chunked && h.ContentLength >= 0 {
		// RFC 9112 section 6.3 (3) would let us drop Content-Length. A client that sends both hopes
		// for a second reader that drops the other.
		return ErrCodingLength
	}
	// RFC 9110 section 10.1.1: from a 1.0 client the expectation MUST be ignored; field takes care
	// of that. Without a body there is nothing to wait for.
	h.Expect100 = h.seen&expectSeen != 0 && h.HasBody()
	return nil
}

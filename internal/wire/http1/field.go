package http1

import (
	"bytes"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
)

// field parses the field line buf[start:end], without its CRLF.
func (h *Head) field(buf []byte, start, end int) *Error {
	at, e := colon(buf, start, end)
	if e != nil {
		return e
	}
	return h.Add(buf, start, at, end)
}

// Add takes the field line buf[start:end], whose colon is at the given position, and in which
// CheckField finds nothing wrong.
func (h *Head) Add(buf []byte, start, colon, end int) *Error {
	if len(h.Fields) == max(h.FieldLimit, MaxFields) {
		return ErrFieldCount
	}
	from, to := trim(buf[:end], colon+1, end)
	h.add(buf, start, colon, from, to)
	value := buf[from:to]
	// The length tells most names apart from those that matter here.
	switch name := buf[start:colon]; len(name) {
	case len("host"):
		if string(name) == "Host" || ascii.EqualFold(name, "host") {
			return h.host(value, from)
		}
	case len("expect"):
		if ascii.EqualFold(name, "expect") && h.Minor == 1 {
			return h.expect(value)
		}
	case len("connection"):
		if ascii.EqualFold(name, "connection") {
			h.connection(value)
		}
	case len("content-length"):
		if ascii.EqualFold(name, "content-length") {
			return h.contentLength(value)
		}
	case len("transfer-encoding"):
		if ascii.EqualFold(name, "transfer-encoding") {
			return h.transferEncoding(value)
		}
	}
	return nil
}

// host takes the Host field, from position from of the buffer. RFC 9112 section 3.2 has an empty
// value for targets without an authority, but those of http and https have one (RFC 9110 section
// 4.2.1): an empty value is refused unless the target names the authority.
func (h *Head) host(value []byte, from int) *Error {
	if h.seen&hostSeen != 0 {
		return ErrHostRepeated
	}
	h.seen |= hostSeen
	empty := h.Absolute && len(value) == 0
	if hostLen, _, ok := parseAuthority(value); !ok || hostLen == 0 && !empty {
		return ErrHost
	}
	if !h.Absolute && h.Method != CONNECT { // RFC 9112 section 3.2.2: the target's authority wins
		h.Host = Span{uint32(from), uint32(from + len(value))}
	}
	return nil
}

// expect takes the Expect field, which is a list by its grammar. RFC 9110 section 10.1.1 knows one
// expectation and lets any other be answered with 417.
func (h *Head) expect(value []byte) (e *Error) {
	ascii.EachElement(value, func(m []byte) bool {
		if !ascii.EqualFold(m, "100-continue") {
			e = ErrExpectation
			return false
		}
		h.seen |= expectSeen
		return true
	})
	return e
}

// contentLength takes the Content-Length field: digits, no sign, no list (RFC 9112 section 6.3 (5);
// the same number twice could be accepted by RFC 9110 section 8.6, but no client sends it that way
// and a proxy before us may have taken either).
func (h *Head) contentLength(value []byte) *Error {
	if h.ContentLength >= 0 {
		return ErrLengthTwice
	}
	n, ok := parseDecimal(value)
	if !ok {
		return ErrLength
	}
	h.ContentLength = n
	return nil
}

// transferEncoding takes the Transfer-Encoding field. Requests with chunked twice, or not at the
// end, are refused by RFC 9112 sections 6.3 (4) and 7.1, and so is an obfuscated "chunked". Other
// codings before it are not implemented, which the client is told by another status (section 6.1).
// In HTTP/1.0 the framing is faulty (section 6.1): a proxy of that age passes it on unread.
func (h *Head) transferEncoding(value []byte) *Error {
	if h.Minor == 0 {
		return ErrCodingOn10
	}
	switch {
	case h.Chunked:
		return ErrCoding
	case ascii.EqualFold(value, "chunked"):
		h.Chunked = true
		return nil
	case codedChunks(value):
		return ErrCodingUnknown
	}
	return ErrCoding
}

// codedChunks reports that value is a list of codings, all of them tokens, whose last is chunked,
// and no other is.
func codedChunks(value []byte) bool {
	last := bytes.LastIndexByte(value, ',')
	if last < 0 || !ascii.EqualFold(ascii.TrimOWS(value[last+1:]), "chunked") {
		return false
	}
	for coding := range bytes.SplitSeq(value[:last], []byte(",")) {
		coding = ascii.TrimOWS(coding)
		if n := tokenLen(coding); n == 0 || n < len(coding) || ascii.EqualFold(coding, "chunked") {
			return false
		}
	}
	return true
}

// parseDecimal reads 1*DIGIT up to 2^63-1.
func parseDecimal(b []byte) (n int64, ok bool) {
	for _, c := range b {
		d := int64(c - '0')
		if d > 9 || n > (1<<63-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(b) > 0
}

// CutField cuts the first field off a text of fields, each as "name: value\r\n". Anything else ends
// the text.
func CutField(text string) (name, value, rest string) {
	n, end := strings.IndexByte(text, ':'), strings.IndexByte(text, '\r')
	if n < 0 || end < n+2 || end+2 > len(text) {
		return "", "", ""
	}
	return text[:n], text[n+2 : end], text[end+2:]
}

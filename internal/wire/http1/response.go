package http1

import (
	"math"

	"github.com/lwango/lwango/internal/base/ascii"
)

// A ResponseHead is the head of a response, filled by Parse from bytes as they arrive. The zero
// value is ready for use; Reset makes it ready again. All spans are positions in the buffer given
// to Parse. The fields mean something once Parse has returned the length of the head. Not safe for
// use by several goroutines at once.
type ResponseHead struct {
	message

	Status int  // 100 to 999
	Reason Span // may be empty

	// Lenient lets lines end in a LF alone, which RFC 9112 section 2.2 allows, in the head and in the
	// chunked coding of the body. It stays after Reset. Whoever takes such lines reads some answers
	// otherwise than strict recipients do, so it is for servers that are known.
	Lenient bool

	at int // where Parse has failed
}

// Reset makes h ready for the next head. It keeps the array of Fields.
func (h *ResponseHead) Reset() {
	*h = ResponseHead{message: message{Fields: h.Fields[:0]}, Lenient: h.Lenient}
}

// Interim reports whether another head follows: a status of 1xx other than 101 (Switching
// Protocols), which is the last response in HTTP (RFC 9110 section 15.2).
func (h *ResponseHead) Interim() bool { return h.Status < 200 && h.Status != 101 }

// Parse reads on in a head, as Head.Parse does, and is as strict. The status of an Error is the one
// for a request with that mistake; a client's client gets 502 for all of them.
//
// In one thing Parse is lenient: the space behind the status may be missing if there is no reason
// phrase. RFC 9112 section 4 demands the space, and many servers leave it out; it separates nothing
// then.
func (h *ResponseHead) Parse(buf []byte) (n int, err error) {
	switch {
	case h.stage == complete:
		return h.line, nil
	case h.stage == broken:
		return 0, h.failed
	case len(buf) > math.MaxUint32:
		return h.fail(0, ErrHeadSize)
	}
	// What does not begin like a response may never end its line: a server of another protocol.
	if h.stage == inFirstLine && !begins(buf, "HTTP/1.") {
		return h.fail(0, ErrStatusLine)
	}
	for {
		if h.searched == h.line { // no part of the line was looked at before
			end, e := h.parseFast(buf, h.line)
			if e != nil {
				return h.fail(end, e)
			}
			h.line, h.searched = end, end
			if h.stage == complete {
				return end, nil
			}
		}
		start, end, e := h.nextLine(buf, h.Lenient)
		switch {
		case e != nil:
			return h.fail(end, e)
		case end < 0:
			return 0, nil
		case h.stage == inFirstLine:
			if e = ErrStatusLine; valueLen(buf[start:end]) == end-start {
				e = h.statusLine(buf, start, end)
			}
			h.stage = inFields
		case start == end:
			if e = h.finish(); e == nil {
				h.stage = complete
				return h.line, nil
			}
		default:
			e = h.field(buf, start, end)
		}
		if e != nil {
			return h.fail(start, orBareCR(e, buf[start:end]))
		}
	}
}

// parseFast parses lines as Head.straight does.
func (h *ResponseHead) parseFast(buf []byte, start int) (end int, e *Error) {
	if h.stage == inFirstLine {
		to := start + valueLen(buf[start:])
		if !startsWith(buf[to:], "\r\n") {
			return start, nil
		}
		h.stage = inFields
		if e = h.statusLine(buf, start, to); e != nil {
			return start, e
		}
		start = to + 2
	}
	for {
		colon, end := fieldLine(buf[start:])
		switch {
		case end > 0:
			if e = h.addField(buf, start, start+colon, start+end); e != nil {
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

// begins reports whether b begins with s, as far as it goes.
func begins(b []byte, s string) bool {
	n := min(len(b), len(s))
	return string(b[:n]) == s[:n]
}

func (h *ResponseHead) fail(at int, e *Error) (int, error) {
	h.at = at
	return h.message.fail(e)
}

// Offending returns some octets of buf, which Parse has refused, around the place of the mistake.
func (h *ResponseHead) Offending(buf []byte) []byte { return Around(buf, h.at) }

// Around returns some octets of buf around the place at, for a message.
func Around(buf []byte, at int) []byte {
	const before, behind = 16, 32
	return buf[max(at-before, 0):min(at+behind, len(buf))]
}

// statusLine parses buf[start:end], which begins with "HTTP/1." (RFC 9112 section 4), and in which
// all may stand in the value of a field.
func (h *ResponseHead) statusLine(buf []byte, start, end int) *Error {
	line := buf[start:end]
	const status = len("HTTP/1.1 ")
	if len(line) < status+3 || class[line[status-2]]&isDigit == 0 || line[status-1] != ' ' {
		return ErrStatusLine
	}
	h.Minor = min(line[status-2]-'0', 1)
	h.ContentLength = -1
	for _, c := range line[status : status+3] {
		if class[c]&isDigit == 0 {
			return ErrStatusLine
		}
		h.Status = h.Status*10 + int(c-'0')
	}
	reason := line[status+3:]
	if h.Status < 100 || len(reason) > 0 && reason[0] != ' ' {
		return ErrStatusLine
	}
	if len(reason) > 0 {
		h.Reason = Span{uint32(start + status + 4), uint32(end)}
	}
	return nil
}

// field parses the field line buf[start:end], without its CRLF.
func (h *ResponseHead) field(buf []byte, start, end int) *Error {
	at, e := colon(buf, start, end)
	if e != nil {
		return e
	}
	return h.addField(buf, start, at, end)
}

// addField takes the valid field line buf[start:end], whose colon is at the given position.
func (h *ResponseHead) addField(buf []byte, start, colon, end int) *Error {
	if len(h.Fields) == MaxFields {
		return ErrFieldCount
	}
	from, to := trim(buf, colon+1, end)
	h.add(buf, start, colon, from, to)
	value := buf[from:to]
	switch name := buf[start:colon]; len(name) {
	case len("Connection"):
		if ascii.EqualFold(name, "Connection") {
			h.connection(value)
		}
	case len("Content-Length"):
		if ascii.EqualFold(name, "Content-Length") {
			n, ok := parseDecimal(value)
			switch {
			case !ok:
				return ErrLength
			case h.ContentLength >= 0 && h.ContentLength != n:
				// The same length twice may be taken as one (RFC 9110 section 8.6). Applications say
				// it beside their server, and conn sends it on once.
				return ErrLengthTwice
			}
			h.ContentLength = n
		}
	case len("Transfer-Encoding"):
		if ascii.EqualFold(name, "Transfer-Encoding") {
			// RFC 9112 section 6.3 (4) would let a client read a body in any other coding up to the
			// end of the connection. A client that asks for none, with TE, is sent none.
			if h.Chunked || !ascii.EqualFold(value, "chunked") {
				return ErrCoding
			}
			h.Chunked = true
		}
	}
	return nil
}

// finish checks what only the whole head shows.
func (h *ResponseHead) finish() *Error {
	switch {
	case h.Chunked && h.Minor == 0:
		return ErrCodingOn10 // "faulty" by RFC 9112 section 6.1
	case h.Chunked && h.ContentLength >= 0:
		return ErrCodingLength // "ought to be handled as an error" by section 6.3 (3)
	case h.Status < 200 && (h.Chunked || h.ContentLength > 0):
		return ErrInterimBody
	}
	return nil
}

// A ResponseBody finds the end of a response's body, given in pieces of any size (RFC 9112 section
// 6.3). Begin makes it ready for a body. Not safe for use by several goroutines at once.
type ResponseBody struct {
	left   int64 // with a length
	extent bodyExtent
	done   bool
	odd    bool // a response without a body has a field that speaks of one
	chunks Chunked
}

type bodyExtent uint8

const (
	byLength bodyExtent = iota
	byChunks
	byClose
)

// Begin makes b ready for the body behind h, which is complete and not interim. head: the request's
// method was HEAD. keepTrailer: see Trailer.
func (b *ResponseBody) Begin(h *ResponseHead, head, keepTrailer bool) {
	*b = ResponseBody{}
	switch {
	case head, h.Status == 304, h.Status == 204, h.Status < 200:
		// The two fields say, at most, what GET would get. A 204 must not have them (RFC 9110
		// section 8.6, RFC 9112 section 6.1): its sender may have sent a body.
		b.done = true
		b.odd = h.Status == 204 && (h.Chunked || h.ContentLength > 0)
	case h.Chunked:
		b.extent = byChunks
		b.chunks.FromServer(h.Lenient)
		if keepTrailer {
			b.chunks.KeepTrailer()
		}
	case h.ContentLength >= 0:
		b.left = h.ContentLength
		b.done = b.left == 0
	default:
		b.extent = byClose
	}
}

// Next takes the next piece of the body from src. data is a part of src, and src[n:] is to be given
// to the next call. data is empty only if the body is done or src is used up. An error is an
// *Error.
func (b *ResponseBody) Next(src []byte) (data []byte, n int, err error) {
	switch {
	case b.done:
		return nil, 0, nil
	case b.extent == byChunks:
		data, n, b.done, err = b.chunks.Next(src)
		return data, n, err
	case b.extent == byClose:
		return src, len(src), nil
	}
	n = int(min(b.left, int64(len(src))))
	b.left -= int64(n)
	b.done = b.left == 0
	return src[:n:n], n, nil
}

// Done reports whether the body is complete.
func (b *ResponseBody) Done() bool { return b.done }

// Closed is called at the orderly end of the connection. It reports whether the body is complete.
func (b *ResponseBody) Closed() bool {
	b.done = b.done || b.extent == byClose
	return b.done
}

// ByClose reports that the body ends with the connection.
func (b *ResponseBody) ByClose() bool { return b.extent == byClose }

// Framed reports whether the end of the body is known without the end of the connection, and beyond
// doubt, so that another response can follow.
func (b *ResponseBody) Framed() bool { return b.extent != byClose && !b.odd }

// Trailer calls f for each field of the trailer section, as Chunked.Trailer does.
func (b *ResponseBody) Trailer(f func(name, value []byte)) { b.chunks.Trailer(f) }

package http1

import (
	"bytes"

	"github.com/lwango/lwango/internal/base/ascii"
)

// maxExcess is how many bytes of chunk lines and extensions a body may have beyond what its data
// pays for: 16 bytes and twice the size, for each chunk. A budget like net/http's, for the reason
// given there: one byte of data behind a long extension makes the server read, and a client may
// send, many times the body it asked for, unseen by a limit on the data. RFC 9112 section 7.1.1
// asks for such a limit.
const maxExcess = 16 << 10

// maxTrailer is how long a trailer section may be, in bytes.
const maxTrailer = 8 << 10

// Chunked decodes the chunked transfer coding (RFC 9112 section 7.1), given in pieces of any size.
// The zero value is ready for a body; Reset makes it ready for another. Lines end in CRLF and
// nothing else, sizes are hexadecimal digits below 2^63, extensions are checked and ignored
// (section 7.1.1), and so are trailer fields unless KeepTrailer was called (RFC 9110 section 6.5.1
// lets a recipient discard them, and requires it of fields that frame a message). Not safe for use
// by several goroutines at once.
type Chunked struct {
	left int64 // data of this chunk still to come
	size int64 // of the chunk line being read
	// bytes of chunk lines not paid for by data; from the last chunk on, bytes of the trailer
	// section
	excess int64
	state  chunkState
	failed *Error

	padded  bool // white space may follow a size
	lenient bool // lines may end in LF alone

	keep bool   // the trailer section
	kept []byte // of it
}

type chunkState uint8

const (
	chunkFirst    chunkState = iota // first digit of a size
	chunkSize                       // further digits
	chunkBWS                        // white space behind the size or a value, only good before ';'
	chunkName                       // white space before the name of an extension
	chunkNameRest                   // its further characters
	chunkNameBWS                    // white space behind it, good before '=' and ';'
	chunkValue                      // white space before the value
	chunkToken                      // value, a token
	chunkQuoted                     // value, inside quotes
	chunkEscape                     // behind a backslash there
	chunkUnquote                    // behind the closing quote
	chunkLF                         // LF of a chunk line
	chunkData
	chunkDataCR
	chunkDataLF
	trailerStart // first character of a line
	trailerName
	trailerValue
	trailerLF
	trailerEnd // LF of the empty line
	chunkDone
	chunkBroken
)

// Reset makes c ready for the next body.
func (c *Chunked) Reset() { *c = Chunked{} }

// FromServer makes c take white space behind a size, with which some servers pad what they have
// room for. The grammar has it before an extension only (RFC 9112 section 7.1.1). A client's "5 "
// has been read as a size of 5 and of 0 by servers in a row; behind an answer there is no other
// recipient to whom these bytes go on. lenient: see ResponseHead.
func (c *Chunked) FromServer(lenient bool) { c.padded, c.lenient = true, lenient }

// KeepTrailer makes c keep the trailer section, of at most 8 KiB.
func (c *Chunked) KeepTrailer() { c.keep = true }

// Trailer calls f for each field of a trailer section that was kept, in order, with views that are
// good until Reset. It includes framing fields that the client has sent: the caller must leave them
// out.
func (c *Chunked) Trailer(f func(name, value []byte)) {
	for line := range bytes.Lines(c.kept) {
		if name, value, ok := bytes.Cut(bytes.TrimSuffix(line, []byte(ChunkEnd)), []byte(":")); ok {
			f(name, ascii.TrimOWS(value))
		}
	}
}

// Decode reads from src and writes data to dst: ns bytes were consumed, nd bytes written. done is
// true once the CRLF after the trailer section was consumed; src[ns:] is then the next message.
// Otherwise dst is full or src is used up. An error is always an *Error, comes back from every
// later call, and leaves nd bytes of good data. dst may begin where src begins, since data only
// moves to the front.
func (c *Chunked) Decode(dst, src []byte) (nd, ns int, done bool, err error) {
	for {
		n, e := c.frame(src[ns:])
		ns += n
		if e != nil {
			return nd, ns, false, e
		}
		n = copy(dst[nd:], src[ns:ns+int(min(c.left, int64(len(src)-ns)))])
		if n == 0 {
			return nd, ns, c.state == chunkDone, nil
		}
		nd += n
		ns += n
		c.left -= int64(n)
	}
}

// Next is Decode in place: data is the next piece of data as it lies in src, and src[ns:] is to be
// given to the next call. data is empty only if done or if src is used up.
func (c *Chunked) Next(src []byte) (data []byte, ns int, done bool, err error) {
	ns, e := c.frame(src)
	if e != nil {
		return nil, ns, false, e
	}
	n := int(min(c.left, int64(len(src)-ns)))
	data = src[ns : ns+n : ns+n]
	c.left -= int64(n)
	return data, ns + n, c.state == chunkDone, nil
}

// Left returns how many bytes, at least, belong to the body behind those that were consumed: a
// lower bound of at most 2^62.
func (c *Chunked) Left() int64 {
	const most = 1 << 62
	const end = int64(len("\r\n0\r\n\r\n")) // behind the data of any chunk
	switch c.state {
	case chunkData:
		return min(c.left, most-end) + end
	case chunkSize, chunkLF: // a size can only become larger by further digits
		if c.size > 0 {
			return min(c.size, most-end-1) + end + 1
		}
	case chunkDone, chunkBroken:
		return 0
	}
	return 1
}

// frame consumes everything that is not data, up to where data begins, to the end of the body or of
// src.
func (c *Chunked) frame(src []byte) (n int, err error) {
	if c.state == chunkBroken {
		return 0, c.failed
	}
	for n < len(src) && c.left == 0 && c.state != chunkDone {
		if e := c.step(src[n]); e != nil {
			c.state, c.failed = chunkBroken, e
			return n, e
		}
		n++
	}
	return n, nil
}

// step takes one byte of framing.
func (c *Chunked) step(b byte) *Error {
	if c.state >= trailerStart {
		return c.trailer(b)
	}
	if c.state == chunkData { // and no data left
		c.state = chunkDataCR
	}
	if c.excess++; c.excess > maxExcess {
		return ErrChunkExcess
	}
	switch c.state {
	case chunkFirst, chunkSize:
		if class[b]&isHex != 0 {
			if c.size >= 1<<59 {
				return ErrChunkSize
			}
			c.size = c.size<<4 | int64(unhex(b))
			c.state = chunkSize
			return nil
		}
		if c.state == chunkFirst {
			return ErrChunkSize
		}
		return c.endSize(b, chunkBWS, ErrChunkSize)
	case chunkBWS:
		if b == '\r' && !c.padded {
			// The grammar has white space before an extension only; "5 \r\n" has been read as a
			// size of 5 and of 0.
			return ErrChunkSize
		}
		return c.endSize(b, chunkBWS, ErrChunkSize)
	case chunkName, chunkNameRest:
		switch {
		case class[b]&isTchar != 0:
			c.state = chunkNameRest
		case c.state == chunkName && (b == ' ' || b == '\t'):
		case c.state == chunkNameRest && b == '=':
			c.state = chunkValue
		case c.state == chunkNameRest:
			return c.endSize(b, chunkNameBWS, ErrChunkExt)
		default:
			return ErrChunkExt
		}
	case chunkNameBWS:
		switch b {
		case '=':
			c.state = chunkValue
		case '\r':
			return ErrChunkExt
		default:
			return c.endSize(b, chunkNameBWS, ErrChunkExt)
		}
	case chunkValue:
		switch {
		case b == '"':
			c.state = chunkQuoted
		case class[b]&isTchar != 0:
			c.state = chunkToken
		case b != ' ' && b != '\t':
			return ErrChunkExt
		}
	case chunkToken:
		if class[b]&isTchar == 0 {
			return c.endSize(b, chunkBWS, ErrChunkExt)
		}
	case chunkQuoted:
		switch {
		case b == '"':
			c.state = chunkUnquote
		case b == '\\':
			c.state = chunkEscape
		case class[b]&isField == 0:
			// A parser that does not know quotes would take a line end inside them for the end.
			return ErrChunkExt
		}
	case chunkEscape:
		if class[b]&isField == 0 {
			return ErrChunkExt
		}
		c.state = chunkQuoted
	case chunkUnquote:
		return c.endSize(b, chunkBWS, ErrChunkExt)
	case chunkLF:
		if b != '\n' {
			return ErrBareCR
		}
		c.begin()
	case chunkDataCR:
		switch {
		case b == '\r':
			c.state = chunkDataLF
		case b == '\n' && c.lenient:
			c.state = chunkFirst
		default:
			return ErrChunkData
		}
	case chunkDataLF:
		if b != '\n' {
			return ErrChunkData
		}
		c.state = chunkFirst
	}
	return nil
}

// endSize takes a byte that may end the size or a part of an extension: the end of the line, the
// next extension, or white space, after which the state is bws.
func (c *Chunked) endSize(b byte, bws chunkState, e *Error) *Error {
	switch b {
	case '\r':
		c.state = chunkLF
	case ';':
		c.state = chunkName
	case ' ', '\t':
		c.state = bws
	case '\n':
		// RFC 9112 section 2.2 allows it for heads at most; section 7.1 has CRLF only
		if !c.lenient {
			return ErrBareLF
		}
		c.begin()
	default:
		return e
	}
	return nil
}

// begin comes after a chunk line.
func (c *Chunked) begin() {
	if c.size == 0 {
		c.state, c.excess = trailerStart, 0
		return
	}
	c.left, c.size, c.state = c.size, 0, chunkData
	c.excess -= 16
	if c.excess < c.left {
		c.excess = 0 // twice the size might overflow
	} else {
		c.excess = max(0, c.excess-2*c.left)
	}
}

// trailer takes one byte of the trailer section: field lines of the same form as in a head, then an
// empty one.
func (c *Chunked) trailer(b byte) *Error {
	if c.excess++; c.excess > maxTrailer {
		return ErrTrailerSize
	}
	if c.keep {
		c.kept = append(c.kept, b)
	}
	switch c.state {
	case trailerStart:
		switch {
		case class[b]&isTchar != 0:
			c.state = trailerName
		case b == '\r':
			c.state = trailerEnd
		case b == '\n' && c.lenient:
			c.state = chunkDone
		case b == '\n':
			return ErrBareLF
		case b == ' ' || b == '\t':
			return ErrFold
		default:
			return ErrFieldName
		}
	case trailerName:
		switch {
		case b == ':':
			c.state = trailerValue
		case class[b]&isTchar == 0:
			return ErrFieldName
		}
	case trailerValue:
		switch {
		case b == '\r':
			c.state = trailerLF
		case b == '\n' && c.lenient:
			c.state = trailerStart
		case b == '\n':
			return ErrBareLF
		case class[b]&isField == 0:
			return ErrFieldValue
		}
	case trailerLF:
		if b != '\n' {
			return ErrBareCR
		}
		c.state = trailerStart
	case trailerEnd:
		if b != '\n' {
			return ErrBareCR
		}
		c.state = chunkDone
	}
	return nil
}

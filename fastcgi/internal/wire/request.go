package wire

import "strings"

// responder is the role that the application is asked to play. PHP-FPM runs the script for the two
// others just the same.
const responder = 1

// keepConn is the flag of BEGIN_REQUEST that leaves it to us to close the connection.
const keepConn = 1

// StdinContent is how many bytes of a body go into one record. With the header these are 32 KiB, so
// that reads of that size, or of a larger power of two, end where records end.
const StdinContent = 32<<10 - HeaderLen

// AppendBegin appends BEGIN_REQUEST. With keep, the connection stays open behind the response.
func AppendBegin(dst []byte, keep bool) []byte {
	flags := byte(0)
	if keep {
		flags = keepConn
	}
	dst = AppendHeader(dst, BeginRequest, 8)
	return append(dst, 0, responder, flags, 0, 0, 0, 0, 0)
}

// AppendStdinEnd appends the empty record that ends the body. An empty body needs it, too: some
// applications wait for it.
func AppendStdinEnd(dst []byte) []byte { return AppendHeader(dst, Stdin, 0) }

// Head builds BEGIN_REQUEST and PARAMS records in a buffer. It never splits a pair over two
// records: the protocol allows that, but PHP-FPM resets the connection. The caller appends to the
// result of Finish what else goes out with the first write, such as STDIN.
//
//	var h wire.Head
//	h.Begin(buf[:0], false)
//	h.Add("REQUEST_METHOD", "GET")
//	buf, err := h.Finish()
type Head struct {
	buf    []byte
	open   int // where the header of the record begins to which pairs are added
	failed *Error
}

// Begin appends BEGIN_REQUEST to dst and makes h ready for pairs.
func (h *Head) Begin(dst []byte, keep bool) {
	dst = AppendBegin(dst, keep)
	h.open, h.failed = len(dst), nil
	h.buf = AppendHeader(dst, Params, 0)
}

// Add adds a pair. A name or value with a NUL is refused: an application that is written in C would
// see less of it than was checked. Finish returns the error.
func (h *Head) Add(name, value string) {
	if strings.IndexByte(name, 0) >= 0 || strings.IndexByte(value, 0) >= 0 {
		h.Fail(ErrPairNUL)
		return
	}
	b := h.Open(len(name), len(value))
	h.Close(append(append(b, name...), value...))
}

// Open begins a pair of these lengths, for names and values that come in pieces. The caller appends
// the name and the value to the result, and gives that to Close before it does anything else with
// h.
func (h *Head) Open(nameLen, valueLen int) []byte {
	n := PairLen(nameLen, valueLen)
	switch {
	case nameLen == 0:
		h.Fail(ErrPairName) // PHP-FPM passes it over, so the author of the pair meant another name
	case n > MaxContent:
		h.Fail(ErrPairSize)
	default:
		h.room(n)
	}
	return appendLength(appendLength(h.buf, nameLen), valueLen)
}

// AddPairs adds pairs that AppendPair has made, of MaxContent bytes at most.
func (h *Head) AddPairs(pairs []byte) {
	h.room(len(pairs))
	h.buf = append(h.buf, pairs...)
}

// room begins another record if the open one has no room for n bytes.
func (h *Head) room(n int) {
	if len(h.buf)-h.open-HeaderLen+n > MaxContent {
		h.seal()
		h.open = len(h.buf)
		h.buf = AppendHeader(h.buf, Params, 0)
	}
}

// Close ends the pair that Open has begun.
func (h *Head) Close(b []byte) { h.buf = b }

// Fail makes Finish return e, unless there is an earlier error.
func (h *Head) Fail(e *Error) {
	if h.failed == nil {
		h.failed = e
	}
}

// Finish ends the parameters and returns the buffer. After an error the caller must not send it.
func (h *Head) Finish() ([]byte, error) {
	if h.failed != nil {
		return h.buf, h.failed
	}
	if len(h.buf) > h.open+HeaderLen { // an empty record is the end by itself
		h.seal()
		h.buf = AppendHeader(h.buf, Params, 0)
	}
	return h.buf, nil
}

// seal writes the length of the open record into its header.
func (h *Head) seal() {
	n := len(h.buf) - h.open - HeaderLen
	h.buf[h.open+4], h.buf[h.open+5] = byte(n>>8), byte(n)
}

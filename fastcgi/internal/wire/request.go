package wire

import "github.com/lwango/lwango/internal/wire/cgi"

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

// Head builds BEGIN_REQUEST and PARAMS records in a buffer. The caller appends to the result of
// Finish what else goes out with the first write, such as STDIN.
//
//	var h wire.Head
//	h.Begin(buf[:0], false)
//	h.Add("REQUEST_METHOD", "GET")
//	buf, err := h.Finish()
type Head struct{ cgi.Vars }

// Begin appends BEGIN_REQUEST to dst and makes h ready for pairs.
func (h *Head) Begin(dst []byte, keep bool) {
	begin := once
	if keep {
		begin = kept
	}
	h.Vars.Begin(append(dst, begin...), cgi.FastCGI, nextParams)
}

// once and kept are what comes before the pairs.
var (
	once = AppendHeader(AppendBegin(nil, false), Params, 0)
	kept = AppendHeader(AppendBegin(nil, true), Params, 0)
)

// Finish ends the parameters and returns the buffer. After an error the caller must not send it.
func (h *Head) Finish() ([]byte, error) {
	b, from, err := h.Vars.Finish()
	if err == nil && len(b) > from { // an empty record is the end by itself
		b = nextParams(b, from)
	}
	return b, err
}

// nextParams writes the length of the record with the pairs from b[from:] into its header, and
// appends the header of another.
func nextParams(b []byte, from int) []byte {
	n := len(b) - from
	b[from-HeaderLen+4], b[from-HeaderLen+5] = byte(n>>8), byte(n)
	return AppendHeader(b, Params, 0)
}

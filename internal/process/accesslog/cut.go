package accesslog

import "github.com/lwango/lwango/conn"

const (
	// maxLine is how many bytes the line of a request may take. Escapes make up to six bytes of one
	// that a client writes into its head.
	maxLine = 2 << 10
	// leastText is where append stops to cut: a line that is still too long owes that to the text
	// of its format.
	leastText = 16
	// cutMark ends a text that was cut.
	cutMark = "..."
)

// append appends the line of e. If the line is too long it is formed again, with less room for each
// text that the client wrote, so that a long target does not take the place of the fields behind
// it. A usual line is formed once.
func (f lineFormat) append(b []byte, e *conn.AccessEntry, c *clock) []byte {
	for c.limit = maxLine; ; c.limit /= 2 {
		line := f(b, e, c)
		if len(line)-len(b) <= maxLine || c.limit <= leastText {
			return line
		}
		b = line[:len(b)]
	}
}

// cut is where a text of a line ends if it does not fit: never within an escape or a character.
type cut struct {
	limit int // the greatest length of the buffer
	at    int // the length of it before the mark
}

// newCut begins a text of at most limit bytes at the end of b.
func newCut(b []byte, limit int) cut { return cut{len(b) + limit, len(b) + limit - len(cutMark)} }

// whole keeps the bytes of the buffer from begin to end together.
func (c *cut) whole(begin, end int) {
	if begin < c.at && c.at < end {
		c.at = begin
	}
}

// reached reports that b is too long, whatever follows.
func (c *cut) reached(b []byte) bool { return len(b) > c.limit }

// end returns b, cut if it is too long.
func (c *cut) end(b []byte) []byte {
	if c.reached(b) {
		return append(b[:c.at], cutMark...)
	}
	return b
}

package accesslog

import "github.com/lwango/lwango/conn"

const (
	// maxLine is how many bytes the line of a request may take. Escaping turns one byte of a client's
	// head into up to six.
	maxLine = 2 << 10
	// leastText is the length below which append cuts no text: if the line is still too long, the text
	// of its format is to blame.
	leastText = 16
	// cutMark ends a text that was cut.
	cutMark = "..."
)

// append appends the line of e. If the line is too long it is formed again, with less room for each
// text of the client, so that a long target leaves room for the fields after it. A usual line is
// formed once.
func (f lineFormat) append(b []byte, e *conn.AccessEntry, c *clock) []byte {
	for c.limit = maxLine; ; c.limit /= 2 {
		line := f(b, e, c)
		if len(line)-len(b) <= maxLine || c.limit <= leastText {
			return line
		}
		b = line[:len(b)]
	}
}

// cut finds where a text of a line ends if it does not fit. It cuts no escape and no character.
type cut struct {
	limit int // the greatest length of the buffer
	at    int // its length before the mark
}

// newCut begins a text of at most limit bytes at the end of b.
func newCut(b []byte, limit int) cut { return cut{len(b) + limit, len(b) + limit - len(cutMark)} }

// keepTogether notes that the bytes of the buffer from begin to end are not to be cut.
func (c *cut) keepTogether(begin, end int) {
	if begin < c.at && c.at < end {
		c.at = begin
	}
}

// reached reports whether b is too long already.
func (c *cut) reached(b []byte) bool { return len(b) > c.limit }

// end returns b, cut if it is too long.
func (c *cut) end(b []byte) []byte {
	if c.reached(b) {
		return append(b[:c.at], cutMark...)
	}
	return b
}

package http1

import (
	"bytes"

	"github.com/lwango/lwango/internal/base/ascii"
)

// message has the common part of the heads of requests and responses.
type message struct {
	Minor uint8 // of the version: 0, or 1 for HTTP/1.1 and any later 1.x (RFC 9110 section 6.2)

	// Progress of Parse.
	stage    stage
	line     int // where the first line not yet parsed begins
	searched int // no LF between line and here
	failed   *Error

	Fields        []Field // in the order sent; the array is used again after Reset
	names         NameSet // of them
	ContentLength int64   // -1: no such field
	Chunked       bool    // the body comes in the chunked coding
	Close         bool    // Connection: close
	KeepAlive     bool    // Connection: keep-alive
	Upgrade       bool    // Connection: upgrade
	Listed        bool    // Connection has several options, or others, which name fields of this hop
}

type stage uint8

const (
	inFirstLine stage = iota
	inFields
	complete
	broken
)

// Persistent reports whether the sender lets the connection go on after this message (RFC 9112
// section 9.3): close outweighs keep-alive, and in HTTP/1.0 the connection goes on only for those
// who ask for it.
func (m *message) Persistent() bool { return !m.Close && (m.Minor == 1 || m.KeepAlive) }

// Len returns the length of the head once Parse has returned it.
func (m *message) Len() int { return m.line }

func (m *message) fail(e *Error) (int, error) {
	m.stage, m.failed = broken, e
	return 0, e
}

// nextLine returns the next line, which is buf[start:end] without its CRLF. A negative end means
// that the line is incomplete. With an error, end is the place of the mistake.
func (m *message) nextLine(buf []byte, lenient bool) (start, end int, e *Error) {
	start = m.line
	i := bytes.IndexByte(buf[m.searched:], '\n')
	if i < 0 {
		// A CR that is not the last byte will never have its LF, and need not wait for a timeout.
		from := max(m.searched-1, start) // a CR that was last then may not be now
		if i := bytes.IndexByte(buf[from:], '\r'); i >= 0 && from+i+1 < len(buf) {
			return start, from + i, ErrBareCR
		}
		m.searched = len(buf)
		return start, -1, nil
	}
	end = m.searched + i - 1 // where the line's CR should be
	m.line = end + 2
	m.searched = m.line
	if end < start || buf[end] != '\r' {
		if end++; !lenient {
			// RFC 9112 section 2.2 lets a recipient take a lone LF for a line end. One parser that
			// does so before or behind one that does not is how a field is hidden from the other.
			return start, end, orBareCR(ErrBareLF, buf[start:end])
		}
	}
	return start, end, nil
}

// orBareCR is e, or ErrBareCR if there is a CR in the line. A line with one is always wrong; that
// it is called wrong for this reason makes the answer the same whether the line was complete or, as
// in cut, not yet.
func orBareCR(e *Error, line []byte) *Error {
	if bytes.IndexByte(line, '\r') >= 0 {
		return ErrBareCR
	}
	return e
}

// colon returns the place of the colon in the field line buf[start:end], if that is valid.
func colon(buf []byte, start, end int) (int, *Error) {
	line := buf[start:end]
	i := tokenLen(line)
	if i == 0 || i == len(line) || line[i] != ':' {
		return 0, badName(line)
	}
	if value := line[i+1:]; valueLen(value) != len(value) {
		return 0, ErrFieldValue
	}
	return start + i, nil
}

// badName tells why a line has no field name. White space at its beginning is obs-fold, which RFC
// 9112 section 5.2 lets a recipient refuse, or, behind a request line, white space that section 2.2
// says to refuse or to skip: a parser that joins the line to the one before and one that does not
// see different fields. White space before the colon must be refused (section 5.1), for the same
// reason.
func badName(line []byte) *Error {
	if c := line[0]; c == ' ' || c == '\t' {
		return ErrFold
	}
	return ErrFieldName
}

// add adds the valid field line that begins at start, whose colon and value are at the given
// positions.
func (m *message) add(buf []byte, start, colon, from, to int) {
	m.names |= nameBit(buf[start:colon])
	m.Fields = append(m.Fields, Field{
		Name:  Span{uint32(start), uint32(colon)},
		Value: Span{uint32(from), uint32(to)},
	})
}

// MayHave reports whether there may be a field of that name. Without one, that spares a search.
func (m *message) MayHave(name string) bool { return MayHave(m.names, name) }

// MayHaveSome reports whether there may be a field with a name of the set.
func (m *message) MayHaveSome(s NameSet) bool { return m.names&s != 0 }

// SetFields replaces the fields by others, which are parts of buf.
func (m *message) SetFields(buf []byte, fields []Field) {
	m.Fields, m.names = fields, 0
	for _, f := range fields {
		m.names |= nameBit(f.Name.Of(buf))
	}
}

// AddFields is SetFields for a copy of the present fields followed by others, whose names are in
// the set.
func (m *message) AddFields(fields []Field, names NameSet) {
	m.Fields = fields
	m.names |= names
}

// trim returns where buf[from:to] is without white space around it.
func trim(buf []byte, from, to int) (int, int) {
	for from < to && (buf[from] == ' ' || buf[from] == '\t') {
		from++
	}
	for to > from && (buf[to-1] == ' ' || buf[to-1] == '\t') {
		to--
	}
	return from, to
}

// connection takes the options of a Connection field (RFC 9110 section 7.6.1); there may be several
// such fields. Options we do not know name fields of this hop.
func (m *message) connection(value []byte) {
	switch { // the whole value is one option nearly always
	case ascii.EqualFold(value, "keep-alive"):
		m.KeepAlive = true
		return
	case ascii.EqualFold(value, "close"):
		m.Close = true
		return
	}
	m.Listed = true
	ascii.EachElement(value, func(option []byte) bool {
		m.Close = m.Close || ascii.EqualFold(option, "close")
		m.KeepAlive = m.KeepAlive || ascii.EqualFold(option, "keep-alive")
		m.Upgrade = m.Upgrade || ascii.EqualFold(option, "upgrade")
		return true
	})
}

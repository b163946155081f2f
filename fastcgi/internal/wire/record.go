package wire

import "encoding/binary"

const (
	// Version is the only one there is.
	Version = 1
	// RequestID is the id of every request that this package writes.
	RequestID = 1
	// HeaderLen is the length of a record's header.
	HeaderLen = 8
	// MaxContent is how many bytes a record that this package writes may hold, padding included.
	// The protocol allows 255 bytes of padding on top, for which PHP-FPM resets the connection.
	MaxContent = 65535
)

// Type is a record's type.
type Type uint8

// Types of records that may stand in a request or a response. Those behind GetValues are passed
// over.
const (
	BeginRequest Type = 1 + iota
	AbortRequest
	EndRequest
	Params
	Stdin
	Stdout
	Stderr
	Data
	GetValues
)

var typeNames = [...]string{"", "BEGIN_REQUEST", "ABORT_REQUEST", "END_REQUEST", "PARAMS", "STDIN",
	"STDOUT", "STDERR", "DATA", "GET_VALUES", "GET_VALUES_RESULT", "UNKNOWN_TYPE"}

// String returns the name that the specification gives t, "" if it gives none.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return ""
}

// A Header is the first eight bytes of a record. The last of them is reserved, and not looked at.
type Header struct {
	Version uint8
	Type    Type
	ID      uint16
	Content uint16 // length of the content, which follows
	Padding uint8  // length of the padding, which follows the content
}

// ParseHeader reads the header at the begin of b. n is its length, or 0 if b does not hold all of
// it. It checks nothing.
func ParseHeader(b []byte) (h Header, n int) {
	if len(b) < HeaderLen {
		return h, 0
	}
	return Header{
		Version: b[0],
		Type:    Type(b[1]),
		ID:      binary.BigEndian.Uint16(b[2:]),
		Content: binary.BigEndian.Uint16(b[4:]),
		Padding: b[6],
	}, HeaderLen
}

// AppendHeader appends the header of a record of our request. content bytes have to follow; it
// panics if there are too many of them. There is no padding: it would align what follows, which
// saves no one as much work as its bytes cost.
func AppendHeader(dst []byte, t Type, content int) []byte {
	if content < 0 || content > MaxContent {
		panic("fastcgi: content does not fit in a record")
	}
	return append(dst, Version, byte(t), 0, RequestID, byte(content>>8), byte(content), 0, 0)
}

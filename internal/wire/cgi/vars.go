package cgi

import (
	"encoding/binary"
	"strings"
)

// Format is how a protocol writes variables.
type Format uint8

const (
	// FastCGI has the lengths of name and value, each of one byte or of four, in front of both.
	FastCGI Format = iota
	// UWSGI has a length of two bytes before name and value, the least significant first.
	UWSGI
	// SCGI has a NUL after each name and each value.
	SCGI
)

// MaxVars is how many bytes of variables a record of FastCGI or a packet of uwsgi may hold.
const MaxVars = 65535

// Vars writes variables to a buffer. Where FastCGI's record is full, it never splits a pair over
// two of them: the protocol allows that, but PHP-FPM resets the connection. The zero value is ready
// for Begin.
type Vars struct {
	buf    []byte
	from   int // where they begin; with records, those of the last one
	value  int // length of the value of the variable that is open
	format Format
	next   func(b []byte, from int) []byte
	failed *Error
}

// Begin makes v ready for variables behind dst. next is for a protocol with records: it ends the
// one whose variables begin at b[from:], and begins another. It is nil for others.
func (v *Vars) Begin(dst []byte, f Format, next func(b []byte, from int) []byte) {
	*v = Vars{buf: dst, from: len(dst), format: f, next: next}
}

// Add adds a variable. It refuses a name or value with a NUL: an application in C would see less
// than was checked, and in SCGI a NUL ends the text. Finish returns the error.
func (v *Vars) Add(name, value string) {
	if strings.IndexByte(name, 0) >= 0 || strings.IndexByte(value, 0) >= 0 {
		v.Fail(ErrPairNUL)
		return
	}
	b := append(v.Open(len(name), len(value)), name...)
	v.Close(append(v.Value(b), value...))
}

// Open begins a variable whose name and value have these lengths, and come in pieces. The caller
// appends the name to the result, passes that through Value, appends the value, and gives that to
// Close before it does anything else with v.
func (v *Vars) Open(name, value int) []byte {
	n := 2 + name + value
	if v.format == FastCGI && uint(name-1) < shortLength && uint(value) <= shortLength &&
		len(v.buf)-v.from+n <= MaxVars { // nearly all
		return append(v.buf, byte(name), byte(value))
	}
	n = pairLen(v.format, name, value)
	switch {
	case name == 0:
		v.Fail(ErrPairName) // PHP-FPM passes it over, so the author of the pair meant another name
	case n > MaxVars && v.format == FastCGI:
		v.Fail(ErrPairSize)
	case len(v.buf)-v.from+n > MaxVars:
		v.nextRecord()
	}
	switch v.format {
	case FastCGI:
		return appendLength(appendLength(v.buf, name), value)
	case UWSGI:
		v.value = value
		return binary.LittleEndian.AppendUint16(v.buf, uint16(name))
	}
	return v.buf
}

// Value comes between the name and the value.
func (v *Vars) Value(b []byte) []byte {
	if v.format == FastCGI {
		return b
	}
	return v.between(b)
}

func (v *Vars) between(b []byte) []byte {
	if v.format == UWSGI {
		return binary.LittleEndian.AppendUint16(b, uint16(v.value))
	}
	return append(b, 0)
}

// Close ends the variable that Open has begun.
func (v *Vars) Close(b []byte) {
	if v.format == SCGI {
		b = append(b, 0)
	}
	v.buf = b
}

// addAll adds variables that appendPair has written, of MaxVars bytes at most.
func (v *Vars) addAll(pairs []byte) {
	if len(v.buf)-v.from+len(pairs) > MaxVars {
		v.nextRecord()
	}
	v.buf = append(v.buf, pairs...)
}

// nextRecord makes room if a variable would exceed MaxVars bytes.
func (v *Vars) nextRecord() {
	switch {
	case v.format == SCGI:
	case v.next == nil:
		v.Fail(ErrVarsSize)
	default:
		v.buf = v.next(v.buf, v.from)
		v.from = len(v.buf)
	}
}

// Fail makes Finish return e, unless there is an earlier error.
func (v *Vars) Fail(e *Error) {
	if v.failed == nil {
		v.failed = e
	}
}

// Finish returns the buffer, and where in it the variables begin, or those of the last record.
// After an error the caller must not send it.
func (v *Vars) Finish() (b []byte, from int, err error) {
	if v.failed != nil {
		return v.buf, v.from, v.failed
	}
	return v.buf, v.from, nil
}

// pairLen returns how many bytes a variable takes.
func pairLen(f Format, name, value int) int {
	switch f {
	case FastCGI:
		return lengthLen(name) + lengthLen(value) + name + value
	case UWSGI:
		return 4 + name + value
	}
	return 2 + name + value
}

// appendPair appends a variable. The caller has checked that the name is not empty, that there is
// no NUL, and that it does not take more than MaxVars bytes.
func appendPair(dst []byte, f Format, name, value string) []byte {
	var v Vars
	v.Begin(dst, f, nil)
	v.Add(name, value)
	return v.buf
}

// shortLength is the greatest length that takes one byte in FastCGI. A longer one takes four, the
// most significant first, and the top bit of that one is set.
const shortLength = 127

func lengthLen(n int) int {
	if n <= shortLength {
		return 1
	}
	return 4
}

func appendLength(dst []byte, n int) []byte {
	if n <= shortLength {
		return append(dst, byte(n))
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n)|1<<31)
}

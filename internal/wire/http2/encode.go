package http2

import (
	"strconv"

	"github.com/lwango/lwango/internal/base/ascii"
)

// Fields are encoded without a dynamic table, so that blocks do not depend on each other: what many
// answers say is encoded once.

// NoTable is what the first block of a connection begins with: the encoder uses no table, whatever
// the size that the other side allows (RFC 7541 section 4.2).
const NoTable = 0x20

// AppendStatus encodes the status of an answer.
func AppendStatus(b []byte, status int) []byte {
	for i, s := range [...]int{200, 204, 206, 304, 400, 404, 500} { // of the static table
		if s == status {
			return append(b, 0x88+byte(i))
		}
	}
	return append(b, 0x08, 3, byte('0'+status/100%10), byte('0'+status/10%10), byte('0'+status%10))
}

// AppendField encodes a field. Its name becomes lower case (RFC 9113 section 8.2).
func AppendField(b []byte, name, value string) []byte {
	b = appendName(b, name)
	b = appendInteger(b, 0, 7, uint(len(value)))
	return append(b, value...)
}

func appendName[S string | []byte](b []byte, name S) []byte {
	if i := staticName(name); i != 0 {
		return appendInteger(b, 0, 4, uint(i))
	}
	b = appendInteger(append(b, 0), 0, 7, uint(len(name)))
	for i := range len(name) {
		b = append(b, ascii.Lower(name[i]))
	}
	return b
}

// appendInteger encodes n behind the high bits of the first octet (RFC 7541 section 5.1).
func appendInteger(b []byte, high byte, prefix, n uint) []byte {
	most := uint(1)<<prefix - 1
	if n < most {
		return append(b, high|byte(n))
	}
	b = append(b, high|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// staticNames are the names of the static table, by their length.
var staticNames = func() (byLength [32][]staticNameAt) {
	for i := len(staticTable) - 1; i >= 0; i-- {
		name := staticTable[i].name
		if i > 0 && staticTable[i-1].name == name || name[0] == ':' {
			continue // the first of them will do
		}
		byLength[len(name)] = append(byLength[len(name)], staticNameAt{name, uint8(i + 1)})
	}
	return byLength
}()

type staticNameAt struct {
	name  string
	index uint8
}

// staticName returns the index of a name in the static table, 0 if it is not there.
func staticName[S string | []byte](name S) uint8 {
	if len(name) >= len(staticNames) {
		return 0
	}
	for _, s := range staticNames[len(name)] {
		if ascii.EqualFold(s.name, name) {
			return s.index
		}
	}
	return 0
}

// AppendLength encodes a Content-Length.
func AppendLength(b []byte, n int64) []byte {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	b = appendInteger(b, 0, 4, 28)
	return append(append(b, byte(len(text))), text...)
}

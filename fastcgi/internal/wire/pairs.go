package wire

import "encoding/binary"

// shortLength is the greatest length that takes one byte. A longer one takes four, the most
// significant first, and the top bit of that one is set.
const shortLength = 127

// maxLength is the greatest length there is.
const maxLength = 1<<31 - 1

// PairLen returns how many bytes a pair of these lengths takes.
func PairLen(name, value int) int { return lengthLen(name) + lengthLen(value) + name + value }

// AppendPair appends a pair. The caller has checked that the name is not empty, and that there is
// no NUL.
func AppendPair(dst []byte, name, value string) []byte {
	dst = appendLength(appendLength(dst, len(name)), len(value))
	return append(append(dst, name...), value...)
}

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
	if n > maxLength {
		panic("fastcgi: length does not fit in 31 bits")
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n)|1<<31)
}

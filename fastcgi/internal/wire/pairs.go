package wire

import "encoding/binary"

// shortLength is the greatest length written as one byte. A longer one takes four, and it is the first of the four on
// the wire, the most significant, whose top bit says so.
const shortLength = 127

// maxLength is the greatest length there is.
const maxLength = 1<<31 - 1

// AppendPair appends a name-value pair. It panics if a length takes more than 31 bits.
func AppendPair[N, V string | []byte](dst []byte, name N, value V) []byte {
	dst = appendLength(appendLength(dst, len(name)), len(value))
	return append(append(dst, name...), value...)
}

// PairLen is how many bytes a pair of these lengths takes.
func PairLen(name, value int) int { return lengthLen(name) + lengthLen(value) + name + value }

// ParsePair reads the pair at the begin of b, as a part of it. n is the length of all, or 0 if b does not hold it
// all. A pair of more than limit bytes is ErrPairLength as soon as its lengths have been read, so that nobody waits
// for, or makes room for, two announced gigabytes.
func ParsePair(b []byte, limit int) (name, value []byte, n int, err error) {
	nameLen, i := parseLength(b)
	valueLen, j := parseLength(b[i:])
	if i == 0 || j == 0 {
		// A name too long is so without its value.
		if i > 0 && nameLen > limit {
			return nil, nil, 0, ErrPairLength
		}
		return nil, nil, 0, nil
	}
	// Both are of 31 bits; their sum may not be.
	if nameLen > limit || valueLen > limit-nameLen || i+j > limit-nameLen-valueLen {
		return nil, nil, 0, ErrPairLength
	}
	n = i + j + nameLen + valueLen
	if len(b) < n {
		return nil, nil, 0, nil
	}
	b = b[i+j : n : n]
	return b[:nameLen:nameLen], b[nameLen:], n, nil
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

// parseLength reads a length; used is 0 if b does not hold it all.
func parseLength(b []byte) (n, used int) {
	switch {
	case len(b) == 0:
		return 0, 0
	case b[0] <= shortLength:
		return int(b[0]), 1
	case len(b) < 4:
		return 0, 0
	}
	return int(binary.BigEndian.Uint32(b) &^ (1 << 31)), 4
}

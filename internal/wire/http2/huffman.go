package http2

import "errors"

// codeLengths are the lengths of the Huffman code of each octet, in bits (RFC 7541 appendix B). The
// code is canonical: shorter codes come first, and those of one length are numbered in the order of
// their octets. So the lengths say all.
var codeLengths = [256]uint8{
	13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
	28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
	6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
	5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
	13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
	7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
	15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
	6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
	20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
	24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
	22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
	21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
	26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
	19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
	20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
	26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
}

// longestCode is the length of the longest code; the end of string has it, too.
const longestCode = 30

// huffman are the codes, and what decodes them.
var huffman = func() (h struct {
	code [256]uint32

	// By length: the first code and its place in order, and how many codes there are.
	first, place, count [longestCode + 1]uint32
	order               [256]uint8 // octets by their codes

	// By the next eight bits: the octet and the length of its code; 0: the code is longer.
	short [256]struct{ octet, bits uint8 }
}) {
	code, n := uint32(0), uint32(0)
	for bits := uint8(1); bits <= longestCode; bits++ {
		code <<= 1
		h.first[bits], h.place[bits] = code, n
		for octet, length := range codeLengths {
			if length != bits {
				continue
			}
			h.code[octet], h.order[n] = code, uint8(octet)
			if bits <= 8 {
				for rest := range uint32(1) << (8 - bits) {
					h.short[code<<(8-bits)|rest].octet = uint8(octet)
					h.short[code<<(8-bits)|rest].bits = bits
				}
			}
			code++
			n++
		}
		h.count[bits] = n - h.place[bits]
	}
	return h
}()

var errHuffman = errors.New("http2: bad Huffman coding")

// appendHuffman appends what s decodes to (RFC 7541 section 5.2).
func appendHuffman(dst, s []byte) ([]byte, error) {
	var bits uint64 // those not decoded yet, at the low end
	n := uint(0)    // how many
	for {
		for n <= 56 && len(s) > 0 {
			bits, n, s = bits<<8|uint64(s[0]), n+8, s[1:]
		}
		if n < 8 {
			break
		}
		if e := huffman.short[uint8(bits>>(n-8))]; e.bits != 0 {
			dst, n = append(dst, e.octet), n-uint(e.bits)
			continue
		}
		octet, length := longCode(bits, n)
		if length == 0 {
			if n >= longestCode { // the end of string, which must not be there
				return dst, errHuffman
			}
			break // it is padding, or cut off
		}
		dst, n = append(dst, octet), n-length
	}
	// Fewer than eight bits can be a whole code and padding.
	for n > 0 {
		e := huffman.short[uint8(bits<<(8-n))]
		if n >= 8 || e.bits == 0 || uint(e.bits) > n {
			break
		}
		dst, n = append(dst, e.octet), n-uint(e.bits)
	}
	if n >= 8 || bits&(1<<n-1) != 1<<n-1 { // the padding is the beginning of the end of string
		return dst, errHuffman
	}
	return dst, nil
}

// longCode returns the octet whose code of more than eight bits the n bits begin with, and the
// length of that; 0 if there is none.
func longCode(bits uint64, n uint) (octet uint8, length uint) {
	for length = 9; length <= min(n, longestCode); length++ {
		code := uint32(bits >> (n - length) & (1<<length - 1))
		if i := code - huffman.first[length]; code >= huffman.first[length] && i < huffman.count[length] {
			return huffman.order[huffman.place[length]+i], length
		}
	}
	return 0, 0
}

package websocket

import "encoding/binary"

// Opcodes (RFC 6455 section 11.8).
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10
)

// Bits of a frame's first byte.
const (
	finBit     = 0x80
	deflateBit = 0x40 // RSV1: of a compressed message's first frame (RFC 7692 section 6)
)

const (
	maxHeader  = 14  // bytes of a frame's header
	maxControl = 125 // bytes of a control frame's payload (RFC 6455 section 5.5)
)

// header is the header of a frame (RFC 6455 section 5.2).
type header struct {
	opcode     byte
	fin        bool
	compressed bool // of a message's first frame
	length     int64
	key        [4]byte // of a masked frame; zero without a mask, which changes nothing
}

func (h *header) control() bool { return h.opcode >= opClose }

// expected has the state on which the meaning of a frame depends.
type expected struct {
	deflate      bool // permessage-deflate was agreed upon
	continuation bool // a message has begun and not ended
	server       bool // the peer is a server, whose frames are not masked
}

// parseHeader parses the header that b begins with, and returns its length, 0 where b ends within
// it. It returns the error for a bad byte as soon as the byte is there.
func parseHeader(b []byte, want expected) (h header, n int, err *CloseError) {
	if len(b) == 0 {
		return h, 0, nil
	}
	h.opcode, h.fin, h.compressed = b[0]&0xf, b[0]&finBit != 0, b[0]&deflateBit != 0
	switch {
	case b[0]&0x30 != 0:
		return h, 0, violation("reserved bit set")
	case h.opcode > opPong || h.opcode > opBinary && h.opcode < opClose:
		return h, 0, violation("reserved opcode")
	case h.control() && !h.fin:
		return h, 0, violation("fragmented control frame")
	case h.opcode == opContinuation && !want.continuation:
		return h, 0, violation("continuation of nothing")
	case !h.control() && h.opcode != opContinuation && want.continuation:
		return h, 0, violation("new message within a message")
	case h.compressed && (!want.deflate || h.control() || h.opcode == opContinuation):
		return h, 0, violation("reserved bit set")
	}
	if len(b) < 2 {
		return h, 0, nil
	}
	h.length = int64(b[1] & 0x7f)
	switch masked := b[1]&0x80 != 0; {
	case !masked && !want.server:
		return h, 0, violation("frame is not masked")
	case masked && want.server: // section 5.1
		return h, 0, violation("frame is masked")
	case h.control() && h.length > maxControl:
		return h, 0, violation("control frame too long")
	}
	n = 2
	switch h.length {
	case 126:
		n = 4
	case 127:
		n = 10
	}
	if len(b) < n {
		return h, 0, nil
	}
	if n == 4 {
		h.length = int64(binary.BigEndian.Uint16(b[2:]))
	} else if n == 10 {
		h.length = int64(binary.BigEndian.Uint64(b[2:]))
	}
	if h.length < 0 || n == 4 && h.length < 126 || n == 10 && h.length < 1<<16 {
		return h, 0, violation("length is not in its shortest form")
	}
	if want.server {
		return h, n, nil
	}
	if len(b) < n+4 {
		return h, 0, nil
	}
	return header{h.opcode, h.fin, h.compressed, h.length, [4]byte(b[n:])}, n + 4, nil
}

// headerLength returns the length of the header, without a mask, of a frame with a payload of n
// bytes.
func headerLength(n int) int {
	switch {
	case n < 126:
		return 2
	case n < 1<<16:
		return 4
	}
	return 10
}

// appendHeader appends the header of a frame without a mask, whose payload has n bytes. first is
// the frame's first byte.
func appendHeader(b []byte, first byte, n int) []byte {
	b = append(b, first)
	switch headerLength(n) {
	case 2:
		return append(b, byte(n))
	case 4:
		return binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	}
	return binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
}

// appendMasked is appendHeader for a frame whose payload is masked with key.
func appendMasked(b []byte, first byte, n int, key [4]byte) []byte {
	at := len(b) + 1
	b = appendHeader(b, first, n)
	b[at] |= 0x80
	return append(b, key[:]...)
}

// mask masks a payload, or undoes that (RFC 6455 section 5.3). at is how many bytes of the payload
// stand before p. It masks words of eight bytes, with the key twice, rotated to the beginning of p.
func mask(key [4]byte, at int64, p []byte) {
	k := binary.LittleEndian.Uint32(key[:])
	if k == 0 {
		return
	}
	turn := uint(at&3) * 8
	k = k>>turn | k<<(32-turn)
	w := uint64(k)<<32 | uint64(k)
	for len(p) >= 32 {
		q := p[:32]
		binary.LittleEndian.PutUint64(q, binary.LittleEndian.Uint64(q)^w)
		binary.LittleEndian.PutUint64(q[8:], binary.LittleEndian.Uint64(q[8:])^w)
		binary.LittleEndian.PutUint64(q[16:], binary.LittleEndian.Uint64(q[16:])^w)
		binary.LittleEndian.PutUint64(q[24:], binary.LittleEndian.Uint64(q[24:])^w)
		p = p[32:]
	}
	for len(p) >= 8 {
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)^w)
		p = p[8:]
	}
	for i := range p {
		p[i] ^= byte(w >> (8 * uint(i)))
	}
}

// violation ends the connection of a peer that breaks the protocol.
func violation(reason string) *CloseError { return &CloseError{Code: ProtocolError, Text: reason} }

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The opcodes of RFC 6455, section 5.2, that the servers measured here may send.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// maxPayload is more than any message here has; a longer one is a server gone wrong, not a reason to allocate.
const maxPayload = 1 << 16

// serverFrame is a frame as a server sends it: whole and unmasked.
type serverFrame struct {
	op      byte
	payload []byte // within the bytes that were parsed
}

// parseFrame takes the first frame of p and tells how many bytes it had: 0 when p ends within it. What a server must
// not send is an error, and a fragmented message is too: these messages are short, and no server has a reason to cut one.
func parseFrame(p []byte) (f serverFrame, used int, err error) {
	if len(p) < 2 {
		return f, 0, nil
	}
	f.op = p[0] & 0x0f
	switch {
	case p[0]&0x70 != 0:
		return f, 0, fmt.Errorf("frame begins with %#02x: a reserved bit without an extension", p[0])
	case p[0]&0x80 == 0:
		return f, 0, errors.New("a fragmented message")
	case p[1]&0x80 != 0:
		return f, 0, errors.New("a masked frame from a server")
	case f.op != opText && (f.op < opClose || f.op > opPong):
		return f, 0, fmt.Errorf("opcode %d", f.op)
	}
	head, size := 2, int(p[1])
	switch {
	case size > 125 && f.op >= opClose:
		return f, 0, errors.New("a control frame of more than 125 bytes")
	case size == 126:
		if len(p) < 4 {
			return f, 0, nil
		}
		if head, size = 4, int(binary.BigEndian.Uint16(p[2:])); size < 126 {
			return f, 0, fmt.Errorf("length %d in more bytes than it needs", size)
		}
	case size == 127: // 64 bits, which nothing below maxPayload needs
		return f, 0, fmt.Errorf("a message of more than %d bytes", maxPayload-1)
	}
	if len(p) < head+size {
		return f, 0, nil
	}
	f.payload = p[head : head+size]
	return f, head + size, nil
}

// appendFrame appends one masked frame, as clients send it (section 5.3), to b. The payload is shorter than maxPayload.
func appendFrame(b []byte, op byte, mask uint32, payload []byte) []byte {
	b = append(b, 0x80|op)
	if n := len(payload); n < 126 {
		b = append(b, 0x80|byte(n))
	} else {
		b = append(b, 0x80|126, byte(n>>8), byte(n))
	}
	b = binary.LittleEndian.AppendUint32(b, mask)
	start := len(b)
	b = append(b, payload...)
	masked := b[start:]
	wide := uint64(mask)<<32 | uint64(mask)
	for len(masked) >= 8 {
		binary.LittleEndian.PutUint64(masked, binary.LittleEndian.Uint64(masked)^wide)
		masked = masked[8:]
	}
	for i := range masked {
		masked[i] ^= byte(mask >> (8 * (i % 4)))
	}
	return b
}

// closeReason reads the payload of a close frame, for an error message.
func closeReason(payload []byte) string {
	if len(payload) < 2 {
		return "without a code"
	}
	return fmt.Sprintf("with %d %q", binary.BigEndian.Uint16(payload), payload[2:])
}

package conn

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// A tls.Conn keeps the buffers in which it reads records and the messages of the handshake as large
// as they have ever been, for as long as it lives. A ClientHello of today makes them 3.5 KB, half of
// what an idle connection takes, and one full record makes one of them 16 KB. crypto/tls has no way
// to give them up. So slimTLS replaces them by Buffers with the same bytes, as a rule none:
// crypto/tls cannot tell the difference. Where a later version of it has no such fields, a test says
// so, and nothing is replaced.

// tlsBuffers are the offsets of the buffers in a tls.Conn.
var tlsBuffers = func() (offsets []uintptr) {
	for _, name := range []string{"rawInput", "hand"} {
		f, ok := reflect.TypeFor[tls.Conn]().FieldByName(name)
		if ok && f.Type == reflect.TypeFor[bytes.Buffer]() {
			offsets = append(offsets, f.Offset)
		}
	}
	return offsets
}()

// slimTLS gives up what those buffers of c that are larger than most have beyond their bytes. No
// call of c may be under way.
func slimTLS(c *tls.Conn, most int) {
	for _, at := range tlsBuffers {
		b := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), at))
		switch {
		case b.Cap() <= most:
		case b.Len() == 0:
			*b = bytes.Buffer{}
		default: // a request that came with the end of the handshake
			*b = *bytes.NewBuffer(bytes.Clone(b.Bytes()))
		}
	}
}

// heldTLS reports whether c has read a part of a record, or of a handshake's message. No call of c
// may be under way.
func heldTLS(c *tls.Conn) bool {
	for _, at := range tlsBuffers {
		if (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), at)).Len() > 0 {
			return true
		}
	}
	return false
}

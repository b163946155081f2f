package proxyproto

// TLVs reads the fields that follow the addresses of version 2, of type, length and value, in
// pieces as they arrive. It only looks for the field about TLS. The zero value is ready.
type TLVs struct {
	head [3]byte // of the present field: type and length
	have int     // bytes of head
	left int     // bytes of the value still to come
	next bool    // the first of them comes next

	// HasSSL is true if there is a field about TLS; then SSL says whether the client uses TLS.
	HasSSL, SSL bool
}

// From section 2.2.6 of the protocol's text.
const (
	typeSSL   = 0x20
	clientSSL = 0x01 // a bit of the first byte of its value
)

// Read takes the next bytes. A field that is cut off at the header's end counts no more.
func (t *TLVs) Read(b []byte) {
	for len(b) > 0 {
		if t.have < len(t.head) {
			t.head[t.have] = b[0]
			t.have++
			b = b[1:]
			if t.have == len(t.head) {
				t.left, t.next = int(t.head[1])<<8|int(t.head[2]), true
			}
		} else {
			if t.next && t.head[0] == typeSSL {
				t.HasSSL, t.SSL = true, b[0]&clientSSL != 0
			}
			n := min(t.left, len(b))
			b, t.left, t.next = b[n:], t.left-n, false
		}
		if t.have == len(t.head) && t.left == 0 {
			t.have = 0
		}
	}
}

// Package clienthello reads the name of the server that a client of TLS asks for (SNI, RFC 6066
// section 3) from the bytes with which it begins, and leaves them as they are. It is pure functions
// on bytes.
package clienthello

import "encoding/binary"

// Error is what is wrong with a ClientHello.
type Error string

// The errors of ServerName.
const (
	ErrNoTLS     Error = "something else than a ClientHello of TLS has come"
	ErrMalformed Error = "malformed ClientHello"
	ErrTooLarge  Error = "ClientHello too large"
)

// Error implements error.
func (e Error) Error() string { return string(e) }

// MaxSize is the most bytes that ServerName looks at: the ClientHello with the headers of its
// records. Those of browsers, with keys that withstand quantum computers, have 2 KiB.
const MaxSize = 16 << 10

const (
	recordHeader    = 5
	maxRecord       = 1 << 14 // RFC 8446 section 5.1
	messageHeader   = 4
	typeHandshake   = 22
	typeClientHello = 1
	extServerName   = 0
	hostName        = 0
)

// ServerName returns the name that the ClientHello at the beginning of b asks for, in lower case;
// "": it asks for none. done is false if the ClientHello has not come whole. After an error, b does
// not begin with a ClientHello, whatever follows. The message may be spread over any number of
// records.
//
// Until the message is whole, its bytes are counted and not copied: ServerName is called again for
// each piece that arrives, and a client may send single bytes.
func ServerName(b []byte) (name string, done bool, err error) {
	var head [messageHeader]byte
	got, need := 0, messageHeader // bytes of the message
	first := parts{b[:min(len(b), MaxSize)]}
	for p := first; ; {
		part, whole, err := p.next()
		if err != nil {
			return "", false, err
		}
		if got < messageHeader {
			copy(head[got:], part)
		}
		if got += len(part); got > 0 && head[0] != typeClientHello {
			return "", false, ErrNoTLS
		}
		if got >= messageHeader {
			need = messageHeader + int(head[1])<<16 + int(head[2])<<8 + int(head[3])
		}
		switch {
		case need > MaxSize:
			return "", false, ErrTooLarge
		case got >= messageHeader && got >= need:
			name, err = nameIn(first.gather(need)[messageHeader:])
			return name, err == nil, err
		case whole:
		case len(b) >= MaxSize:
			return "", false, ErrTooLarge
		default:
			return "", false, nil
		}
	}
}

// parts are the records of a handshake.
type parts struct{ b []byte }

// next returns what has come of the next record, without its header. whole is false if there is
// more of it to come.
func (p *parts) next() (part []byte, whole bool, err error) {
	b := p.b
	if len(b) > 0 && b[0] != typeHandshake || len(b) > 1 && b[1] != 3 {
		return nil, false, ErrNoTLS
	}
	if len(b) < recordHeader {
		return nil, false, nil
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	if n == 0 || n > maxRecord { // an empty one is none of a handshake (RFC 8446 section 5.1)
		return nil, false, ErrMalformed
	}
	b = b[recordHeader:]
	if n > len(b) {
		return b, false, nil
	}
	p.b = b[n:]
	return b[:n], true, nil
}

// gather returns the first n bytes in the records, which have come.
func (p parts) gather(n int) []byte {
	all, _, _ := p.next()
	if len(all) >= n {
		return all[:n]
	}
	all = append(make([]byte, 0, n), all...)
	for len(all) < n {
		part, _, _ := p.next()
		all = append(all, part[:min(len(part), n-len(all))]...)
	}
	return all
}

// reader takes vectors off the beginning of a text. After the first that is cut, bad is set.
type reader struct {
	b   []byte
	bad bool
}

// take returns the next n bytes.
func (r *reader) take(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad = true
		return make([]byte, min(n, 2))
	}
	t := r.b[:n]
	r.b = r.b[n:]
	return t
}

// vector returns what follows a length of size bytes, 1 or 2.
func (r *reader) vector(size int) []byte {
	n := 0
	for _, c := range r.take(size) {
		n = n<<8 | int(c)
	}
	t := r.take(n)
	if r.bad {
		return nil
	}
	return t
}

// nameIn returns the name in the body of a ClientHello (RFC 8446 section 4.1.2).
func nameIn(body []byte) (string, error) {
	r := reader{b: body}
	r.take(2 + 32) // version, random
	r.vector(1)    // session
	r.vector(2)    // suites
	r.vector(1)    // compression
	if r.bad {
		return "", ErrMalformed
	}
	if len(r.b) == 0 { // a client from before there were extensions
		return "", nil
	}
	extensions := reader{b: r.vector(2)}
	if r.bad || len(r.b) > 0 {
		return "", ErrMalformed
	}
	name, seen := "", false
	for len(extensions.b) > 0 && !extensions.bad {
		kind := binary.BigEndian.Uint16(extensions.take(2))
		data := extensions.vector(2)
		if extensions.bad || kind != extServerName {
			continue
		}
		list := reader{b: data}
		entries := reader{b: list.vector(2)}
		if list.bad || len(list.b) > 0 || len(entries.b) == 0 || seen {
			return "", ErrMalformed
		}
		seen = true
		for len(entries.b) > 0 && !entries.bad {
			sort := entries.take(1)[0]
			text := entries.vector(2)
			if entries.bad || sort != hostName {
				continue
			}
			if name != "" || len(text) == 0 { // one of each kind
				return "", ErrMalformed
			}
			var ok bool
			if name, ok = lower(text); !ok {
				return "", ErrMalformed
			}
		}
		if entries.bad {
			return "", ErrMalformed
		}
	}
	if extensions.bad {
		return "", ErrMalformed
	}
	return name, nil
}

// lower returns a name in lower case. ok is false if it has bytes that no name of a host has.
func lower(text []byte) (_ string, ok bool) {
	if len(text) > 255 {
		return "", false
	}
	b := make([]byte, len(text))
	for i, c := range text {
		if c <= ' ' || c > '~' || c == '/' || c == '"' || c == '\\' {
			return "", false
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return string(b), true
}

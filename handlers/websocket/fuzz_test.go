package websocket

import (
	"bytes"
	"compress/flate"
	"strings"
	"testing"
)

// FuzzHeader: a header is the same however much is behind it, is an error no sooner than its bytes
// say so, and what is taken has all the properties that the rest of the package relies on.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x81\x85\x00\x00\x00\x00Hello"), false, false, false)
	f.Add([]byte("\x81\x05Hello"), false, false, true)
	f.Add([]byte("\xc2\xfe\x01\x00aaaa"), true, false, false)
	f.Add([]byte("\x80\xff\x00\x00\x00\x00\x00\x01\x00\x00aaaa"), true, true, false)
	f.Fuzz(func(t *testing.T, b []byte, deflate, continuation, server bool) {
		want := expected{deflate, continuation, server}
		h, n, err := parseHeader(b, want)
		for i := range b { // the first answer is the last
			hi, ni, erri := parseHeader(b[:i], want)
			if erri != nil && (err == nil || *erri != *err) || ni > 0 && (hi != h || ni != n) || ni > i {
				t.Fatalf("%x: %v, %d, %v; of %x: %v, %d, %v", b, h, n, err, b[:i], hi, ni, erri)
			}
		}
		if err != nil && (n != 0 || err.Code != ProtocolError) || n > maxHeader || n > len(b) ||
			err == nil && n == 0 && len(b) >= maxHeader {
			t.Fatalf("%x: %d, %v", b, n, err)
		}
		if n == 0 {
			return
		}
		again := []byte{h.opcode, 0x80}
		if server {
			again[1] = 0
		}
		if h.fin {
			again[0] |= 0x80
		}
		if h.compressed {
			again[0] |= 0x40
		}
		switch {
		case h.length < 126:
			again[1] |= byte(h.length)
		case h.length < 1<<16:
			again = append(again, byte(h.length>>8), byte(h.length))
			again[1] |= 126
		default:
			for shift := 56; shift >= 0; shift -= 8 {
				again = append(again, byte(h.length>>shift))
			}
			again[1] |= 127
		}
		if !server {
			again = append(again, h.key[:]...)
		}
		if !bytes.Equal(again, b[:n]) {
			t.Fatalf("%x: %+v means %x", b[:n], h, again)
		}
		if h.length < 0 || h.control() && (!h.fin || h.length > maxControl || h.compressed) ||
			h.compressed && !deflate || !h.control() && (h.opcode == opContinuation) != continuation {
			t.Fatalf("%x: %+v", b, h)
		}
		first := b[0]
		if written := appendHeader(nil, first, int(h.length)); server && !bytes.Equal(written, b[:n]) {
			t.Fatalf("%x is written as %x", b[:n], written)
		} else if masked := appendMasked(nil, first, int(h.length), h.key); !server &&
			!bytes.Equal(masked, b[:n]) {
			t.Fatalf("%x is written as %x", b[:n], masked)
		}
	})
}

// FuzzInflate: what is inflated is bounded, and what package flate has packed comes out again.
func FuzzInflate(f *testing.F) {
	f.Add([]byte("\xf2\x48\xcd\xc9\xc9\x07\x00"))
	f.Add([]byte("\xf3\x48\xcd\xc9\xc9\x07\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 16
		fl := inflaters.Get().(*inflater)
		defer inflaters.Put(fl)
		out, err := fl.inflate(nil, append(bytes.Clone(b), leftOut...), nil, limit, true)
		if err == nil && len(out) > limit || len(out) > 2*limit ||
			err != nil && err.Code != TooBig && err.Code != InvalidData {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
		var packed bytes.Buffer
		w, _ := flate.NewWriter(&packed, 1)
		_, _ = w.Write(b)
		_ = w.Flush()
		out, err = fl.inflate(out[:0],
			append(bytes.TrimSuffix(packed.Bytes(), []byte("\x00\x00\xff\xff")), leftOut...), nil,
			int64(len(b)), true)
		if err != nil || !bytes.Equal(out, b) {
			t.Fatalf("%x came out as %x, %v", b, out, err)
		}
	})
}

// FuzzClose: a code that is taken may be sent.
func FuzzClose(f *testing.F) {
	f.Add([]byte("\x03\xe8bye"))
	f.Fuzz(func(t *testing.T, p []byte) {
		code, text, err := parseClose(p)
		if err == nil && len(p) > 0 && (code < 1000 || code > 4999 || len(text) != len(p)-2) {
			t.Fatalf("%x: %d %q", p, code, text)
		}
	})
}

// FuzzOffers: no header can have more than is in it.
func FuzzOffers(f *testing.F) {
	f.Add(`permessage-deflate; client_max_window_bits="10", x`)
	f.Fuzz(func(t *testing.T, s string) {
		offers, ok := parseOffers([]string{s})
		n := 0
		for _, o := range offers {
			if n += len(o.name); o.name == "" {
				t.Fatalf("%q: %q", s, offers)
			}
			for _, p := range o.params {
				n += len(p.name) + len(p.value)
			}
		}
		if n > len(s) || ok && len(offers) == 0 && strings.Trim(s, ", \t") != "" {
			t.Fatalf("%q: %q", s, offers)
		}
	})
}

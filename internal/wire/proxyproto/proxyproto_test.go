package proxyproto_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/proxyproto"
)

const (
	sig = "\r\n\r\n\x00\r\nQUIT\n"
	v4  = "\xc0\x00\x02\x01\xcb\x00\x71\x07\xdc\x04\x01\xbb" // 192.0.2.1:56324, 203.0.113.7:443
)

var v6 = "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01" +
	strings.Repeat("\x00", 10) + "\xff\xff\x0a\x00\x00\x02" + "\x00\x50\x1f\x90"

// bin makes a header of version 2.
func bin(command, family byte, rest string) string {
	return sig + string([]byte{command, family, byte(len(rest) >> 8), byte(len(rest))}) + rest
}

var headers = []struct{ raw, want, why string }{
	{"PROXY TCP4 192.0.2.1 203.0.113.7 56324 443\r\nGET", "192.0.2.1:56324 203.0.113.7:443 44", ""},
	{"PROXY TCP6 2001:db8::1 ::ffff:10.0.0.2 1 2\r\n", "[2001:db8::1]:1 10.0.0.2:2 44", "mapped"},
	{"PROXY UNKNOWN\r\n", "none 15", ""},
	{"PROXY UNKNOWN ffff:: ffff:: 65535 65535\r\n", "none 41", "the rest of the line is ignored"},
	{"PROXY UNKNOWN \x00 x\r\n", "none 19", "whatever it is"},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 0 0\r\n", "1.1.1.1:0 2.2.2.2:0 32", ""},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 1 2", "more", "not complete"},
	{"", "more", ""},
	{"P", "more", ""},
	{"\r", "more", "a beginning of version 2"},
	{sig, "more", ""},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n", string(proxyproto.ErrLine), "a bare LF"},
	{"PROXY TCP4  1.1.1.1 2.2.2.2 1 2\r\n", string(proxyproto.ErrLine), "two spaces"},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n", string(proxyproto.ErrLine), "a part is missing"},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 1 2 3\r\n", string(proxyproto.ErrLine), "a part too many"},
	{"PROXY TCP4 1.1.1.1 ::1 1 2\r\n", string(proxyproto.ErrLine), "another family"},
	{"PROXY TCP6 1.1.1.1 2.2.2.2 1 2\r\n", string(proxyproto.ErrLine), "another family"},
	{"PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n", string(proxyproto.ErrLine), "a zone"},
	{"PROXY TCP4 01.1.1.1 2.2.2.2 1 2\r\n", string(proxyproto.ErrLine), "leading zeroes"},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 01 2\r\n", string(proxyproto.ErrLine), "leading zeroes"},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 +1 2\r\n", string(proxyproto.ErrLine), "a sign"},
	{"PROXY TCP4 1.1.1.1 2.2.2.2 65536 2\r\n", string(proxyproto.ErrLine), "too large a port"},
	{"PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n", string(proxyproto.ErrLine), "an unknown protocol"},
	{"PROXY \r\n", string(proxyproto.ErrLine), ""},
	{"PROXY " + strings.Repeat("x", 101), string(proxyproto.ErrLine), "longer than a line can be"},
	{"PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", string(proxyproto.ErrLine), "108 bytes"},
	{"PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n", "none 107", "107 bytes"},
	{"proxy TCP4", string(proxyproto.ErrNoHeader), "case counts"},
	{"GET / HTTP/1.1\r\n", string(proxyproto.ErrNoHeader), ""},
	{"\x16\x03\x01", string(proxyproto.ErrNoHeader), "TLS"},
	{"\r\n\r\nGET", string(proxyproto.ErrNoHeader), ""},

	{bin(0x21, 0x11, v4), "192.0.2.1:56324 203.0.113.7:443 28", ""},
	{bin(0x21, 0x12, v4), "192.0.2.1:56324 203.0.113.7:443 28", "a client of QUIC"},
	{bin(0x21, 0x21, v6) + "GET", "[2001:db8::1]:80 10.0.0.2:8080 52", ""},
	{bin(0x21, 0x31, strings.Repeat("s", 216)), "unix 232", "UNIX sockets"},
	{bin(0x21, 0x31, strings.Repeat("s", 215)), string(proxyproto.ErrLength), ""},
	{bin(0x21, 0x11, v4+"\x03\x00\x04abcd"), "192.0.2.1:56324 203.0.113.7:443 35", "a TLV"},
	{bin(0x21, 0x11, v4+strings.Repeat("x", 65535-12))[:28],
		"192.0.2.1:56324 203.0.113.7:443 65551", "TLVs that have not come yet"},
	{bin(0x21, 0x11, v4)[:27], "more", "an address that is not complete"},
	{bin(0x21, 0x11, v4)[:15], "more", ""},
	{bin(0x21, 0x11, v4[:11]), string(proxyproto.ErrLength), "no room for the addresses"},
	{bin(0x21, 0x21, v4), string(proxyproto.ErrLength), ""},
	{bin(0x20, 0x00, ""), "none 16", "LOCAL"},
	{bin(0x20, 0x11, v4), "none 28", "LOCAL, whose addresses do not count"},
	{bin(0x20, 0x11, "x"), "none 17", ""},
	{bin(0x21, 0x00, "xyz"), "none 19", "UNSPEC"},
	{bin(0x21, 0x10, v4), "none 28", "an unspecified protocol"},
	{bin(0x22, 0x11, v4), string(proxyproto.ErrCommand), ""},
	{bin(0x31, 0x11, v4), string(proxyproto.ErrVersion), ""},
	{bin(0x11, 0x11, v4), string(proxyproto.ErrVersion), "version 1 is text"},
	{bin(0x21, 0x41, v4), string(proxyproto.ErrFamily), ""},
	{bin(0x21, 0x13, v4), string(proxyproto.ErrFamily), ""},
	{sig + "\x99", string(proxyproto.ErrVersion), "refused as soon as it can be seen"},
}

func show(raw []byte) string {
	h, n, err := proxyproto.Parse(raw)
	switch {
	case err != nil:
		return err.Error()
	case n == 0:
		return "more"
	case !h.Known:
		return fmt.Sprintf("none %d", n)
	case !h.Source.IsValid():
		return fmt.Sprintf("unix %d", n)
	}
	return fmt.Sprintf("%v %v %d", h.Source, h.Destination, n)
}

func TestParse(t *testing.T) {
	for _, c := range headers {
		if got := show([]byte(c.raw)); got != c.want {
			t.Errorf("%q: got %s, want %s (%s)", c.raw, got, c.want, c.why)
		}
		// What is not complete is not refused, and what is refused stays so.
		for i := range len(c.raw) {
			got, whole := show([]byte(c.raw[:i])), c.want
			if got != "more" && got != whole {
				t.Errorf("%q: got %s, want more or %s", c.raw[:i], got, whole)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range headers {
		f.Add([]byte(c.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, n, err := proxyproto.Parse(raw)
		switch {
		case n < 0 || n > 16+65535 || err != nil && (n != 0 || h != proxyproto.Header{}):
			t.Fatalf("%d, %+v, %v", n, h, err)
		case n == 0 && err == nil && len(raw) >= proxyproto.MaxAddresses:
			t.Fatalf("%d bytes do not suffice", len(raw))
		case h.Source.IsValid() != h.Destination.IsValid() || h.Source.IsValid() && !h.Known:
			t.Fatalf("%+v", h)
		}
		for _, a := range []netip.Addr{h.Source.Addr(), h.Destination.Addr()} {
			if a.Is4In6() || a.Zone() != "" {
				t.Fatalf("%+v", h)
			}
		}
		// The result does not depend on what comes behind, nor on how the bytes come.
		if n > 0 {
			if h2, n2, err := proxyproto.Parse(append(bytes.Clone(raw), "GET /"...)); h2 != h || n2 != n ||
				err != nil {
				t.Fatalf("with more behind: %+v, %d, %v", h2, n2, err)
			}
		}
		for i := range min(len(raw), proxyproto.MaxAddresses) {
			h2, n2, err2 := proxyproto.Parse(raw[:i])
			if (n2 != 0 || err2 != nil) && (h2 != h || n2 != n || err2 != err) {
				t.Fatalf("of %d bytes: %+v, %d, %v; of all: %+v, %d, %v", i, h2, n2, err2, h, n, err)
			}
		}
	})
}

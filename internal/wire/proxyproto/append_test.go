package proxyproto_test

import (
	"net/netip"
	"testing"

	"github.com/lwango/lwango/internal/wire/proxyproto"
)

func addr(s string) (a netip.AddrPort) {
	if s != "" {
		a = netip.MustParseAddrPort(s)
	}
	return a
}

// TestAppendLocal: a header for no client is one that Parse knows, and names nobody.
func TestAppendLocal(t *testing.T) {
	for version, want := range map[string]string{"": "", "v1": "PROXY UNKNOWN\r\n",
		"v2": "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"} {
		b := proxyproto.AppendLocal(nil, version)
		if h, size, err := proxyproto.Parse(b); string(b) != want || h.Known || size != len(b) ||
			err != nil {
			t.Errorf("%s: %q, %+v, %d, %v", version, b, h, size, err)
		}
	}
}

// TestAppend: what Parse reads is what was appended, and nothing before the last byte.
func TestAppend(t *testing.T) {
	for _, test := range []struct{ from, to, one string }{
		{"192.0.2.1:56324", "198.51.100.7:443", "PROXY TCP4 192.0.2.1 198.51.100.7 56324 443\r\n"},
		{"[2001:db8::1]:1", "[::1]:65535", "PROXY TCP6 2001:db8::1 ::1 1 65535\r\n"},
		{"192.0.2.1:9", "[2001:db8::1]:10", "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 9 10\r\n"},
		{"[::ffff:192.0.2.1]:9", "10.0.0.1:100", "PROXY TCP4 192.0.2.1 10.0.0.1 9 100\r\n"},
		{"[fe80::1%eth0]:9", "[fe80::2%eth0]:1", "PROXY TCP6 fe80::1 fe80::2 9 1\r\n"},
		{"", "", "PROXY UNKNOWN\r\n"},
		{"", "10.0.0.1:100", "PROXY UNKNOWN\r\n"},
	} {
		from, to := addr(test.from), addr(test.to)
		one := proxyproto.Append1(nil, from, to)
		if string(one) != test.one {
			t.Errorf("%q, want %q", one, test.one)
		}
		for _, b := range [][]byte{one, proxyproto.Append2(nil, from, to)} {
			for i := range b {
				if _, size, err := proxyproto.Parse(b[:i]); size != 0 && size != len(b) || err != nil {
					t.Fatalf("%q cut at %d: %d, %v", b, i, size, err)
				}
			}
			h, size, err := proxyproto.Parse(b)
			if err != nil || size != len(b) || h.Known != (test.from != "" && test.to != "") {
				t.Fatalf("%q: %+v, %d, %v", b, h, size, err)
			}
			if !h.Known {
				continue
			}
			zoneless := func(a netip.AddrPort) netip.AddrPort {
				return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
			}
			if h.Source != zoneless(from) || h.Destination != zoneless(to) {
				t.Errorf("%q: %v to %v, want %v to %v", b, h.Source, h.Destination, from, to)
			}
		}
	}
}

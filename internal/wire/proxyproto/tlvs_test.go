package proxyproto_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/proxyproto"
)

func TestTLVs(t *testing.T) {
	crc, empty := "\x03\x00\x04abcd", "\x04\x00\x00"
	long := "\x05\x01\x00" + strings.Repeat("\x20", 256)
	for raw, want := range map[string]string{
		"":                                 "unsaid",
		crc + empty + long:                 "unsaid",
		"\x20\x00\x05\x01\x00\x00\x00\x00": "secure",
		crc + "\x20\x00\x05\x07\x00\x00\x00\x00" + long:  "secure",
		empty + "\x20\x00\x05\x06\x00\x00\x00\x00" + crc: "plain",
		long + "\x20\x00\x01\x01":                        "secure",
		"\x20\x00\x00":                                   "unsaid",
		"\x20\xff\xff\x01":                               "secure",
		"\x20\x00":                                       "unsaid",
		"\xff\xff\xff\x20\x00\x01\x01":                   "unsaid",
	} {
		for size := range len(raw) + 1 {
			var fields proxyproto.TLVs
			for rest := raw; rest != ""; {
				n := min(max(size, 1), len(rest))
				fields.Read([]byte(rest[:n]))
				rest = rest[n:]
			}
			got := "unsaid"
			if fields.HasSSL {
				got = map[bool]string{true: "secure", false: "plain"}[fields.SSL]
			}
			if got != want {
				t.Errorf("%.40q, %d bytes at a time: got %s, want %s", raw, size, got, want)
			}
		}
	}
}

// FuzzTLVs: what is read does not depend on how the bytes come, and is what a reader of the whole
// would find.
func FuzzTLVs(f *testing.F) {
	f.Add([]byte("\x03\x00\x04abcd\x20\x00\x05\x01\x00\x00\x00\x00"), 3)
	f.Add([]byte("\x20\x00\x00\x20\x00\x01\x01\x20\xff\xff\x00"), 1)
	f.Fuzz(func(t *testing.T, raw []byte, size int) {
		var got, want proxyproto.TLVs
		for rest := raw; len(rest) > 0; {
			n := min(max(size, 1), len(rest))
			got.Read(rest[:n])
			rest = rest[n:]
		}
		for rest := raw; len(rest) > 3; {
			length := int(rest[1])<<8 | int(rest[2])
			if rest[0] == 0x20 && length > 0 {
				want.HasSSL, want.SSL = true, rest[3]&1 != 0
			}
			rest = rest[min(3+length, len(rest)):]
		}
		if got.HasSSL != want.HasSSL || got.SSL != want.SSL {
			t.Errorf("%q, %d bytes at a time: %v, %v", raw, size, got, want)
		}
	})
}

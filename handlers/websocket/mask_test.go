package websocket

import (
	"bytes"
	"fmt"
	"testing"
)

// naive is what RFC 6455 section 5.3 says, byte by byte.
func naive(key [4]byte, at int64, p []byte) {
	for i := range p {
		p[i] ^= key[(at+int64(i))&3]
	}
}

// FuzzMask: masking by words does what masking by bytes does, wherever the payload is cut.
func FuzzMask(f *testing.F) {
	f.Add([]byte("a payload that is longer than thirty-two bytes, and not by a whole word"),
		uint32(0x12345678), uint16(5))
	f.Add([]byte("short"), uint32(0xff000000), uint16(1))
	f.Fuzz(func(t *testing.T, p []byte, k uint32, cut uint16) {
		key := [4]byte{byte(k >> 24), byte(k >> 16), byte(k >> 8), byte(k)}
		want, got := bytes.Clone(p), bytes.Clone(p)
		naive(key, 0, want)
		n := min(int(cut), len(p))
		mask(key, 0, got[:n])
		mask(key, int64(n), got[n:])
		if !bytes.Equal(got, want) {
			t.Fatalf("%x with %x, cut at %d: %x, want %x", p, key, n, got, want)
		}
	})
}

func BenchmarkMask(b *testing.B) {
	for _, size := range []int{16, 125, 1 << 10, 64 << 10} {
		p := make([]byte, size)
		for _, by := range []struct {
			name string
			mask func([4]byte, int64, []byte)
		}{{"bytes", naive}, {"words", mask}} {
			b.Run(fmt.Sprintf("%d/%s", size, by.name), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					by.mask([4]byte{1, 2, 3, 4}, 3, p)
				}
			})
		}
	}
}

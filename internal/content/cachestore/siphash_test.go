package cachestore_test

import (
	"encoding/binary"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
)

// TestSipHash: the hash is SipHash-2-4, by the vectors of its authors.
func TestSipHash(t *testing.T) {
	var key, in [16]byte
	for i := range 16 {
		key[i], in[i] = byte(i), byte(i)
	}
	k0, k1 := binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	for n, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 8: 0x93f5f5799a932462,
		15: 0xa129ca6149be45e5} {
		if got := cachestore.Sip(k0, k1, in[:n]); got != want {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

package http2_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestInbox: several of them give back what was added, in pieces of all sizes.
func TestInbox(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var in [3]http2.Inbox
	var want [3][]byte
	next := byte(0)
	for range 3_000 {
		k := random.IntN(len(in))
		switch size := 1 << random.IntN(17); random.IntN(40) {
		case 0:
			in[k].Reset()
			want[k] = nil
		default:
			p := make([]byte, random.IntN(size)+1)
			for i := range p {
				p[i] = next
				next++
			}
			if random.IntN(2) == 0 && len(want[k]) < 1<<20 {
				in[k].Add(p)
				want[k] = append(want[k], p...)
			} else if n := in[k].Read(p); !bytes.Equal(p[:n], want[k][:n]) ||
				n != min(len(p), len(want[k])) {
				t.Fatalf("read %d of %d bytes, or others than were added", n, len(want[k]))
			} else {
				want[k] = want[k][n:]
			}
		}
		if n := in[k].Len(); n != len(want[k]) {
			t.Fatalf("%d bytes, want %d", n, len(want[k]))
		} else if held := in[k].Held(); held > max(4*n, 8<<10) {
			t.Fatalf("%d bytes hold %d", n, held)
		}
	}
}

// TestInboxAllocates: content that is read as it comes takes no new memory.
func TestInboxAllocates(t *testing.T) {
	ci.Without(t, invariants.Enabled || race.Enabled, "the race detector empties pools")
	frame, p := make([]byte, http2.DefaultFrameSize), make([]byte, 20_000)
	allocs := testing.AllocsPerRun(100, func() {
		var in http2.Inbox
		for range 10 {
			in.Add(frame)
		}
		for in.Len() > 0 {
			in.Read(p)
		}
	})
	if allocs > 1 { // a pool may be emptied by a collection
		t.Error(allocs, " allocations")
	}
}

package upstream

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

// TestSlotCounts: the list and the map together are one map.
func TestSlotCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var s slotCounts
	model := make(map[netip.Addr]int)
	for step := range 10_000 {
		clientNet := netip.AddrFrom4([4]byte{10, 0, 0, byte(random.IntN(3 * fewCounts))})
		n := max(random.IntN(6)-3, 0)
		s.set(clientNet, n)
		if model[clientNet] = n; n == 0 {
			delete(model, clientNet)
		}
		if len(s.few)+len(s.many) != len(model) {
			t.Fatalf("step %d: %d and %d client networks, want %d", step, len(s.few), len(s.many),
				len(model))
		}
		for clientNet, n := range model {
			if got := s.of(clientNet); got != n {
				t.Fatalf("step %d: %v has %d, want %d", step, clientNet, got, n)
			}
		}
	}
}

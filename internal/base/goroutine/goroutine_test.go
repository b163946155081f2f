package goroutine

import (
	"testing"
)

// TestID: a goroutine has one number, and no other has it.
func TestID(t *testing.T) {
	own, other := ID(), make(chan uint64)
	for range 3 {
		go func() { other <- ID() }()
		if id := <-other; id == own || id == 0 || own != ID() {
			t.Errorf("%d and %d, now %d", own, id, ID())
		}
	}
	if n := testing.AllocsPerRun(100, func() { ID() }); n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}

func BenchmarkID(b *testing.B) {
	for b.Loop() {
		ID()
	}
}

package cache_test

import (
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestMinUses: what is not asked for often enough goes past the cache.
func TestMinUses(t *testing.T) {
	var n atomic.Int32
	s := start(t, modes.Direct, cache.Settings{MinUses: 3}, counting(&n, "max-age=10"))
	for i, step := range []struct{ target, want string }{
		{"/a", "200 1 lwango; fwd=uri-miss"},
		{"/a", "200 2 lwango; fwd=uri-miss"},
		{"/b", "200 3 lwango; fwd=uri-miss"},
		{"/a", "200 4 lwango; fwd=uri-miss; stored"},
		{"/a", "200 4 lwango; hit; ttl=10"},
		{"/b", "200 5 lwango; fwd=uri-miss"},
	} {
		if _, said := get(t, s, step.target); said != step.want {
			t.Errorf("step %d: %s, want %s", i, said, step.want)
		}
	}
}

// TestMostUses: a program's number that no count has room for is the largest that one has.
func TestMostUses(t *testing.T) {
	var n atomic.Int32
	s := start(t, modes.Direct, cache.Settings{MinUses: 1000}, counting(&n, "max-age=10"))
	for range 256 {
		get(t, s, "/a")
	}
	if n.Load() != 255 {
		t.Errorf("%d requests of 256 have asked the handler, want 255", n.Load())
	}
}

// TestUses: keys are counted apart, and one that takes the place of another begins anew.
func TestUses(t *testing.T) {
	enough := cache.CountUses(3)
	a, b, other := uint64(1<<40|5), uint64(2<<40|6), uint64(3<<40|5) // a and other have one place
	for i, want := range []struct {
		hash uint64
		is   bool
	}{{a, false}, {a, false}, {b, false}, {a, true}, {a, true}, {b, false}, {b, true}, {other, false},
		{a, false}, {a, false}, {a, true}} {
		if got := enough(want.hash); got != want.is {
			t.Errorf("%d: %v", i, got)
		}
	}
}

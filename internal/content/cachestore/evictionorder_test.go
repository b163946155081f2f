package cachestore_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
)

// TestReplacedLeavesNothing: in a store that is never full, an answer that is fetched anew for ever
// leaves nothing behind in the order of eviction.
func TestReplacedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := store(t, 16<<20)
	body := strings.Repeat("b", 40<<10) // it has a slot of its own
	for range 3000 {
		put(t, s, "/a", cachestore.Head{}, body)
		put(t, s, "/b", cachestore.Head{}, body)
	}
	if n := s.Queued(); n > 300 {
		t.Errorf("%d places in the queues for 2 answers", n)
	}
	s.Check()
}

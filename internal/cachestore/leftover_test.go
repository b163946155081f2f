package cachestore_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/race"
)

// TestLeftoversCount: a short answer that somebody has for long, such as a client that does not take it,
// holds a slab of others, which are evicted. That counts as the store's memory, until it is given up; and
// once it is much, whoever looks something up has that alone. So what is held is bounded, also where all
// slabs are.
func TestLeftoversCount(t *testing.T) {
	ci.Without(t, race.Enabled, "it looks at the memory of the process")
	const memory, much = 4 << 20, 32 << 20
	s := store(t, memory)
	body := strings.Repeat("b", 1000)
	var held [][]byte
	before := leak.InUse()
	for i, last := 0, 0; i < much/1000; i++ {
		key := fmt.Sprintf("/%d", i)
		put(t, s, key, cachestore.Head{Status: 200}, body)
		if i%10 == 0 { // more often than there are slabs
			for _, o := range s.Lookup(nil, s.Key([]byte(key))) {
				b, _ := o.Body()
				held = append(held, b)
			}
		}
		if (i-last)*1000 > memory/8 {
			last = i
			runtime.GC()
		}
	}
	used, objects := s.Stats().MemoryBytes, s.Stats().MemoryObjects
	t.Logf("%d KiB of heap, %d counted, %d objects", (leak.InUse()-before)>>10, used>>10, objects)
	if n := leak.InUse() - before; n > 4*memory { // the copies are as much again
		t.Errorf("%d KiB are held, of %d", n>>10, memory>>10)
	}
	if left, _ := s.Leftovers(); left < memory/4 || used > memory || objects < memory*5/8/1216 {
		t.Errorf("%d bytes count, %d of them evicted, for %d objects", used, left, objects)
	}
	s.Check()
	for _, b := range held {
		if string(b) != body {
			t.Fatal("an answer has changed")
		}
	}
	held = nil
	runtime.GC()
	runtime.GC()
	for i := range much / 1000 {
		put(t, s, fmt.Sprint("/after/", i), cachestore.Head{Status: 200}, body)
		if i%500 == 0 {
			runtime.GC()
		}
	}
	left, slabs := s.Leftovers()
	if n := s.Stats().MemoryObjects; left != 0 || n < objects*9/8 {
		t.Errorf("%d bytes of %d slabs are held, and %d objects kept, which were %d", left, slabs, n, objects)
	}
	s.Check()
}

package cachestore_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/race"
)

// TestLeftoversCount: a short answer that somebody has for long, such as a client that does not
// take it, holds a slab of others, which are evicted. That counts as the store's memory, until it
// is given up; and once it is much, whoever looks something up has that alone. So what is held is
// bounded, also where all slabs are.
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
		t.Errorf("%d bytes of %d slabs are held, and %d objects kept, which were %d", left, slabs, n,
			objects)
	}
	s.Check()
}

// hold has a store hold so many evicted slabs that look-ups give copies, until free is called.
func hold(t *testing.T, s *cachestore.Store, memory int) (free func()) {
	t.Helper()
	body := strings.Repeat("b", 1000)
	var held [][]byte
	for i := 0; ; i++ {
		key := fmt.Sprintf("/held/%d", i)
		put(t, s, key, cachestore.Head{Status: 200}, body)
		if i%10 == 0 {
			for _, o := range s.Lookup(nil, s.Key([]byte(key))) {
				b, _ := o.Body()
				held = append(held, b)
			}
		}
		if i%500 == 0 {
			runtime.GC()
		}
		if n, _ := s.Leftovers(); n > int64(memory/6) {
			break
		} else if i > 100*memory/1000 {
			t.Fatal("nothing is held")
		}
	}
	return func() { clear(held) }
}

// TestLeftoversFreed: who looks something up all the time keeps nothing that nobody has any more.
func TestLeftoversFreed(t *testing.T) {
	const memory = 4 << 20
	s := store(t, memory)
	free := hold(t, s, memory)
	body := "text"
	put(t, s, "/x", cachestore.Head{Status: 200}, body)
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for key := s.Key([]byte("/x")); !stop.Load(); {
				s.Lookup(nil, key)
			}
		})
	}
	many := make([]*string, 1<<20) // so that the collector takes its time
	for i := range many {
		many[i] = &body
	}
	free()
	for range 6 {
		runtime.GC()
	}
	runtime.KeepAlive(many)
	stop.Store(true)
	all.Wait()
	if n := s.Survivors(); n > 0 {
		held, _ := s.Leftovers()
		t.Errorf("%d slabs are in memory for nobody, and %d bytes count", n, held)
	}
	s.Check()
}

// TestLeftoversForm: a coded form is made once, also while look-ups give copies.
func TestLeftoversForm(t *testing.T) {
	const memory = 4 << 20
	s := store(t, memory)
	free := hold(t, s, memory)
	defer free()
	put(t, s, "/x", cachestore.Head{Status: 200}, strings.Repeat("x", 500))
	look := func() *cachestore.Object { return s.Lookup(nil, s.Key([]byte("/x")))[0] }
	made := 0
	for range 3 {
		if _, mine := s.Form(look(), 0); mine {
			made++
		}
	}
	if made != 1 {
		t.Errorf("the form is made %d times", made)
	}
	s.SetForm(look(), 0, []byte("short"))
	if b, mine := s.Form(look(), 0); string(b) != "short" || mine {
		t.Errorf("%q, %v", b, mine)
	}
	s.Check()
}

// TestLeftoversLess: what is held does not take all of a memory that has become less.
func TestLeftoversLess(t *testing.T) {
	const memory, less = 32 << 20, 2 << 20
	s := store(t, memory)
	free := hold(t, s, memory)
	defer free()
	s.Configure(cachestore.Options{Memory: less})
	for i := range 100 {
		put(t, s, fmt.Sprint("/new/", i), cachestore.Head{Status: 200}, "text")
	}
	n, _ := s.Leftovers()
	if kept := s.Lookup(nil, s.Key([]byte("/new/99"))); len(kept) == 0 ||
		s.Stats().MemoryObjects < 100 {
		t.Errorf("%d objects are kept, and %d bytes held", s.Stats().MemoryObjects, n)
	}
	s.Check()
}

package cachestore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
)

// TestFullBuckets: small answers come in such numbers that buckets have lists behind them. All are
// found that were not evicted or removed, and none else.
func TestFullBuckets(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	key := func(i int) cachestore.Key { return s.Key(fmt.Appendf(nil, "/%d", i)) }
	random := rand.New(rand.NewPCG(1, 2))
	removed := make(map[int]bool)
	const n = 10_000
	for i := range n {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, fmt.Sprint(i))
		if x := random.IntN(i + 1); i%3 == 0 {
			if list := s.Lookup(nil, key(x)); len(list) > 0 {
				s.Remove(list[0])
			}
			removed[x] = true
		}
		if i%1000 == 0 {
			s.Check()
		}
	}
	s.Check()
	found := int64(0)
	for i := range n {
		list := s.Lookup(nil, key(i))
		if len(list) > 1 || len(list) == 1 && removed[i] {
			t.Fatalf("%d: %d are found; removed: %t", i, len(list), removed[i])
		}
		for _, o := range list {
			if body, _ := o.Body(); string(body) != fmt.Sprint(i) {
				t.Errorf("%d: %q", i, body)
			}
			found++
		}
	}
	if x := s.Stats(); found != x.MemoryObjects || x.Evicted == 0 {
		t.Errorf("%d are found: %+v", found, x)
	}
}

// TestManyFills: many answers come at a time, several of each line, and end in another order.
// Whoever asks for one of them joins it, and a purge of a line reaches those of that line alone.
func TestManyFills(t *testing.T) {
	t.Parallel()
	s := store(t, 64<<20)
	const lines, each = 500, 3
	key := func(i int) []byte { return fmt.Appendf(nil, "/%d\nsite\n%d", i%lines, i/lines) }
	fills := make([]*cachestore.Fill, lines*each)
	for i := range fills {
		_, fills[i] = s.Begin(s.Key(key(i)), nil, anyone)
	}
	s.Check()
	for i := range fills {
		if r, f := s.Begin(s.Key(key(i)), nil, anyone); f != nil {
			t.Fatalf("%s is asked for twice", key(i))
		} else {
			r.Close()
		}
	}
	_ = s.Purge(line("/7\nsite"))
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(fills)) {
		fills[i].Start(cachestore.Head{}, 0)
		if o, _ := fills[i].Commit(); (o == nil) != (i%lines == 7) {
			t.Errorf("%s: %v", key(i), o)
		}
		if i%100 == 0 {
			s.Check()
		}
	}
	s.Check()
}

// TestLine: a key is the same whether its first line was told before or not, and whatever was told.
func TestLine(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	for _, text := range []string{"", "/a", "/a\n", "/a\nsite\n/", "\nsite"} {
		want := s.Key([]byte(text)).Hash()
		for n := range len(text) + 1 {
			if got := s.KeyOf([]byte(text), s.Line([]byte(text[:n]))).Hash(); got != want {
				t.Errorf("%q, %d bytes of it told: %x, want %x", text, n, got, want)
			}
		}
	}
}

package cachestore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
)

// fillStore keeps n small answers with header, tags and what a layer has made of them.
func fillStore(t testing.TB, s *cachestore.Store, n int) {
	t.Helper()
	body := []byte(strings.Repeat("b", 1024))
	h := cachestore.Head{Status: 200, Fields: strings.Repeat("field: value\r\n", 14), Tags: "a b c",
		Meta: new(cachestore.Meta)}
	for i := range n {
		key := s.Key(fmt.Appendf(nil, "http://www.example.org/some/path/%07d\nwww.example.org\n/\n\n", i))
		r, f := s.Begin(key, nil, anyone)
		if _, o := f.Whole(h, body); o == nil {
			t.Fatal("not kept")
		}
		r.Close()
		f.Release()
	}
}

// TestCollectorSeesNothing: answers that are kept are no objects of the garbage collector's, so it
// has nothing to do for them: 1,000,000 cost it 2.2 s of CPU each time, and may cost it 5 ms.
func TestCollectorSeesNothing(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	n, memory := 20_000, int64(64<<20)
	if ci.Enabled() {
		n, memory = 1_000_000, 2<<30
	}
	objects := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapObjects)
	}
	cpu := func() float64 {
		s := []metrics.Sample{{Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"},
			{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"},
			{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"}}
		metrics.Read(s)
		return s[0].Value.Float64() + s[1].Value.Float64() + s[2].Value.Float64()
	}
	s := store(t, memory)
	before := objects()
	fillStore(t, s, n)
	if grown := objects() - before; grown > int64(n)/30+200 {
		t.Errorf("%d objects for %d answers", grown, n)
	}
	const rounds = 5
	began := cpu()
	for range rounds {
		runtime.GC()
	}
	t.Logf("%d answers: %.2f ms of CPU for a collection", n, (cpu()-began)/rounds*1e3)
	s.Check()
}

// TestHeldWhileForgotten: what somebody has of objects stays as it is, whatever comes after them.
func TestHeldWhileForgotten(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	random := rand.New(rand.NewPCG(1, 2))
	type held struct {
		o    *cachestore.Object
		body []byte
		want string
	}
	var all []held
	for i := range 20_000 {
		key := fmt.Sprint("/", random.IntN(3000))
		for _, o := range s.Lookup(nil, s.Key([]byte(key))) {
			o.Hit()
			if b, _ := o.Body(); random.IntN(10) == 0 {
				all = append(all, held{o, b, string(b)})
			}
		}
		put(t, s, key, cachestore.Head{Fields: fmt.Sprint("n: ", i), Vary: fmt.Sprint(i % 2)},
			fmt.Sprint(i, strings.Repeat("x", random.IntN(700))))
		if len(all) > 100 {
			all = all[1:]
		}
		for _, h := range all {
			n := strings.Index(h.want, "x")
			if string(h.body) != h.want || n > 0 && h.o.Head().Fields != "n: "+h.want[:n] {
				t.Fatal("an object has changed")
			}
		}
	}
	s.Check()
}

// TestNothingGoesForWaste: answers that are fetched anew again and again evict nothing, though each
// leaves its place behind, and so does what a 304 replaces.
func TestNothingGoesForWaste(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	random := rand.New(rand.NewPCG(1, 2))
	const n = 3000
	body := strings.Repeat("b", 1000)
	for i := range n {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, body)
	}
	for range 30_000 {
		i := random.IntN(n / 2) // the others are never asked for
		key := s.Key([]byte(fmt.Sprint("/", i)))
		if i%2 == 0 {
			put(t, s, fmt.Sprint("/", i), cachestore.Head{}, body)
			continue
		}
		seen := s.Lookup(nil, key)
		r, f := s.Begin(key, seen, anyone)
		if f.Freshen(seen[0], cachestore.Head{Fields: "fresh"}) == nil {
			t.Fatal("an answer is not kept")
		}
		r.Close()
	}
	if x := s.Stats(); x.Evicted > 0 || x.MemoryObjects != n {
		t.Errorf("%+v", x)
	}
	s.Check()
}

// TestFormsOfSmall: coded forms of small answers go where the answers go, and stay beside a 304.
func TestFormsOfSmall(t *testing.T) {
	t.Parallel()
	s := store(t, 4<<20)
	key := s.Key([]byte("/a"))
	put(t, s, "/a", cachestore.Head{}, strings.Repeat("b", 1000))
	find := func() *cachestore.Object {
		l := s.Lookup(nil, key)
		if len(l) != 1 {
			t.Fatal("not found")
		}
		l[0].Hit()
		return l[0]
	}
	first := find()
	for form := range 2 {
		if b, mine := s.Form(first, form); b != nil || !mine {
			t.Error("there is a form")
		}
		if _, again := s.Form(first, form); again {
			t.Error("two make a form")
		}
	}
	s.SetForm(first, 0, []byte("coded"))
	s.SetForm(first, 1, nil)
	check := func(when string) {
		t.Helper()
		o := find()
		if b, mine := s.Form(o, 0); string(b) != "coded" || mine {
			t.Errorf("%s: %q, %t", when, b, mine)
		}
		s.Check()
	}
	check("set")
	for i := range 20_000 { // the answer is carried on several times
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, strings.Repeat("x", 1000))
		if i%100 == 0 {
			check("used")
		}
	}
	if find() == first {
		t.Error("it was not carried")
	}
	if b, mine := s.Form(find(), 1); b != nil || mine {
		t.Error("a form that is not worth it is made again")
	}
	seen := s.Lookup(nil, key)
	r, f := s.Begin(key, seen, anyone)
	if f.Freshen(first, cachestore.Head{Fields: "f"}) == nil { // by the record of long ago
		t.Error("it is not known")
	}
	r.Close()
	check("fresh")
	s.Remove(first) // which a 304 has replaced
	s.Remove(find())
	if len(s.Lookup(nil, key)) > 0 {
		t.Error("it is not removed")
	}
	s.Check()
}

// TestSlabsUnderLoad: lookups find what is kept, and nothing else, while others come, go and move.
func TestSlabsUnderLoad(t *testing.T) {
	t.Parallel()
	s := store(t, 1<<20)
	rounds := 20_000
	if race.Enabled {
		rounds = 2000
	}
	const popular = 50
	text := func(i int) string { return fmt.Sprint("/popular/", i) }
	for i := range popular {
		put(t, s, text(i), cachestore.Head{Fields: text(i)}, text(i))
	}
	threads := make([]func(*loop.Thread), 6)
	for n := range threads {
		threads[n] = func(th *loop.Thread) {
			for i := range rounds {
				if n < 2 {
					put(t, s, fmt.Sprint("/", n, "/", i), cachestore.Head{}, strings.Repeat("x", i%400))
					continue
				}
				k := text(i % popular)
				for _, o := range s.Lookup(th, s.Key([]byte(k))) {
					o.Hit()
					if b, _ := o.Body(); !bytes.Equal(b, []byte(k)) || o.Head().Fields != k {
						t.Errorf("%q, %q for %q", b, o.Head().Fields, k)
					}
					if c, mine := s.Form(o, i%3); mine {
						s.SetForm(o, i%3, []byte("coded "+k))
					} else if c != nil && string(c) != "coded "+k {
						t.Errorf("%q as a form of %q", c, k)
					}
				}
				if n == 2 && i%125 == 0 { // one alone, as another's purge would take what is put here
					must.Do(t, s.Purge(cachestore.Purge{Lines: [][]byte{[]byte(k)}}))
					put(t, s, k, cachestore.Head{Fields: k}, k)
				}
			}
		}
	}
	run(t, 3, threads...)
	s.Check()
}

// TestSlotsAreLimited: a store that has as many objects as it has numbers for evicts, though there
// is memory, and keeps nothing more while all of them are being sent.
func TestSlotsAreLimited(t *testing.T) {
	t.Parallel()
	const slots, size = 128, 40 << 10
	s := store(t, 64<<20)
	s.LimitSlots(slots)
	ask := func(i int) cachestore.Key { return s.Key([]byte(fmt.Sprint("/", i))) }
	for i := range 5 * slots {
		o := put(t, s, fmt.Sprint("/", i), cachestore.Head{},
			strings.Repeat(string(rune('a'+i%26)), size))
		if got := s.Lookup(nil, ask(i)); len(got) != 1 || !got[0].Same(o) {
			t.Fatalf("%d is not kept", i)
		}
		put(t, s, fmt.Sprint("/small", i), cachestore.Head{}, "x")
	}
	s.Check()
	kept := 0
	for i := range 5 * slots {
		for _, o := range s.Lookup(nil, ask(i)) {
			if b, _ := o.Body(); len(b) != size || b[0] != byte('a'+i%26) {
				t.Fatalf("%d has another body", i)
			}
			if o.Use(netip.Addr{}, true) != nil {
				kept++
			}
		}
	}
	if n := s.Stats(); kept < slots/2 || kept > slots || n.MemoryBytes > 32<<20 {
		t.Errorf("%d are kept, %+v", kept, n)
	}
	for i := range slots {
		key := s.Key([]byte(fmt.Sprint("/more", i)))
		r, f := s.Begin(key, nil, anyone)
		f.Start(cachestore.Head{}, size)
		must.Do(t, f.Write(nil, make([]byte, size), -1))
		_, _ = f.Commit()
		r.Close()
	}
	s.Check()
}

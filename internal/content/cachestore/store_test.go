package cachestore_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
)

// TestModel: a store does what a map does, as long as nothing is evicted.
func TestModel(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	s := store(t, 64<<20)
	model := make(map[string][]string) // bodies by key, the newest first; a body begins with its Vary
	for i := range 5000 {
		key := fmt.Sprint("/", random.IntN(3), "/", random.IntN(40))
		vary := fmt.Sprint(random.IntN(4))
		switch n := random.IntN(100); {
		case n < 40:
			body := fmt.Sprintf("%s %d %s", vary, i, strings.Repeat("x", random.IntN(3000)))
			put(t, s, key, cachestore.Head{Vary: vary, Tags: "t" + key[3:]}, body)
			model[key] = slices.DeleteFunc(model[key], func(b string) bool { return b[0] == vary[0] })
			model[key] = append([]string{body}, model[key]...)
		case n < 45:
			r, f := s.Begin(s.Key([]byte(key)), s.Lookup(nil, s.Key([]byte(key))), anyone)
			f.Start(cachestore.Head{Vary: vary}, -1)
			must.Do(t, f.Write(nil, []byte("never seen"), -1))
			f.Abort(io.ErrUnexpectedEOF)
			r.Close()
		case n < 50:
			must.Do(t, s.Purge(cachestore.Purge{Lines: [][]byte{[]byte(key)}}))
			delete(model, key)
		case n == 50:
			must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"t" + key[3:]}}))
			for k := range model {
				if k[3:] == key[3:] {
					delete(model, k)
				}
			}
		case n == 51 && random.IntN(4) == 0:
			must.Do(t, s.Purge(cachestore.Purge{Prefixes: [][]byte{[]byte(key[:3])}}))
			for k := range model {
				if k[:3] == key[:3] {
					delete(model, k)
				}
			}
		case n < 55:
			if l := s.Lookup(nil, s.Key([]byte(key))); len(l) > 0 {
				s.Remove(l[len(l)-1])
				model[key] = model[key][:len(model[key])-1]
			}
		}
		var got []string
		for _, o := range s.Lookup(nil, s.Key([]byte(key))) {
			b, _ := o.Body()
			got = append(got, string(b))
		}
		if !slices.Equal(got, model[key]) {
			t.Fatalf("step %d: %s: %.60q, want %.60q", i, key, got, model[key])
		}
	}
	s.Check()
}

// TestBound: the store stays within its bytes, whatever comes, and so does one that is made
// smaller.
func TestBound(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const memory = 4 << 20
	s := store(t, memory)
	for i := range 5000 {
		key := make([]byte, 1+random.IntN(1<<random.IntN(16)))
		key[0] = byte(i)
		body := make([]byte, random.IntN(1<<random.IntN(17)))
		r, f := s.Begin(s.Key(key), s.Lookup(nil, s.Key(key)), anyone)
		f.Start(cachestore.Head{Fields: strings.Repeat("f", random.IntN(500))}, -1)
		must.Do(t, f.Write(nil, body, -1))
		if s.Stats().MemoryBytes > memory {
			t.Fatal("a fill is over the bound")
		}
		if o, err := f.Commit(); err == nil && random.IntN(4) == 0 {
			if _, mine := s.Form(o, 1); mine {
				s.SetForm(o, 1, body[:len(body)/3])
			}
		}
		r.Close()
		if s.Stats().MemoryBytes > memory {
			t.Fatal("over the bound")
		}
	}
	s.Check()
	s.Configure(cachestore.Options{Memory: memory / 4})
	if x := s.Stats(); x.MemoryBytes > memory/4 || x.MemoryObjects == 0 {
		t.Errorf("%+v", x)
	}
	s.Check()
}

// TestHit: a hit allocates nothing.
func TestHit(t *testing.T) {
	s := store(t, 1<<20)
	put(t, s, "/some/key?with=query", cachestore.Head{Fields: "a: b\r\n"}, "body")
	if n := testing.AllocsPerRun(100, func() {
		var space [64]byte
		var found [2]*cachestore.Object
		o := s.Find(nil, s.Key(append(space[:0], "/some/key?with=query"...)), found[:0])[0]
		o.Hit()
		if b, ok := o.Body(); !ok || len(b) != 4 || o.Head().Fields == "" || o.Stale() {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestSize: an object of 1 KiB takes 1.6 KiB at most, and what the store counts is what it takes.
func TestSize(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	const n = 20_000
	fields := strings.Repeat("field: value\r\n", 14)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s := store(t, 64<<20)
	body := strings.Repeat("b", 1024)
	for i := range n {
		put(t, s, fmt.Sprintf("https://www.example.org/some/path/%06d", i), cachestore.Head{
			Status: 200, Fields: strings.Clone(fields)}, body)
	}
	used := heap() - before - s.Aside()
	counted := s.Stats().MemoryBytes
	t.Logf("%d bytes each, %d counted", used/n, counted/n)
	if used/n > 1638 {
		t.Errorf("an object takes %d bytes", used/n)
	}
	if used > counted*102/100 || used < counted*9/10 {
		t.Errorf("%d bytes are counted, %d are taken", counted, used)
	}
	runtime.KeepAlive(s)
}

// TestTrace: a scan does not wash out what is popular, and the hit ratio of a trace with and
// without one is no worse than it was when the policy was chosen.
func TestTrace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		scans bool
		least float64
	}{{false, 0.70}, {true, 0.65}} {
		ratio := trace(t, test.scans, 50_000)
		t.Logf("scans %v: %.3f", test.scans, ratio)
		if ratio < test.least {
			t.Errorf("scans %v: %.3f of the popular keys hit", test.scans, ratio)
		}
	}
}

// trace asks for keys of Zipf's law in a store for a tenth of them. With scans, half of the
// requests are for keys that never come again. It returns the ratio of hits among the others.
func trace(t testing.TB, scans bool, n int) float64 {
	random := rand.New(rand.NewPCG(1, 2))
	zipf := rand.NewZipf(random, 1.001, 1, 50_000)
	s := store(t, 5000*1450)
	body := strings.Repeat("b", 1024)
	hits, asked := 0, 0
	ask := func(key string) {
		asked++
		if l := s.Lookup(nil, s.Key([]byte(key))); len(l) > 0 {
			l[0].Hit()
			hits++
			return
		}
		put(t, s, key, cachestore.Head{}, body)
	}
	for i := range n {
		ask(fmt.Sprintf("/page/%06d", zipf.Uint64()))
		if scans {
			before := hits
			ask(fmt.Sprintf("/scan/%06d", i))
			asked, hits = asked-1, before
		}
	}
	return float64(hits) / float64(asked)
}

// TestRace: threads of several loops look up, fill, read, cancel and purge, in a store for some of
// the bodies. None reads a body that is cut, mixed or another key's.
func TestRace(t *testing.T) {
	t.Parallel()
	s := store(t, 512<<10)
	rounds := 500
	if race.Enabled {
		rounds = 100
	}
	threads := make([]func(*loop.Thread), 24)
	for i := range threads {
		threads[i] = func(th *loop.Thread) { client(t, s, th, uint64(i), rounds) }
	}
	run(t, 3, threads...)
	s.Check()
	if x := s.Stats(); x.Filling != 0 || x.Fills == 0 || x.Evicted == 0 {
		t.Errorf("%+v", x)
	}
}

// body makes a body of a key: its checksum, the key, and bytes that follow from both.
func makeBody(random *rand.Rand, key string) []byte {
	b := make([]byte, 4+64+random.IntN(1<<random.IntN(18)))
	copy(b[4:], key)
	for i := 4 + len(key); i < len(b); i += 8 {
		b[i] = byte(random.Uint32())
	}
	sum := crc32.ChecksumIEEE(b[4:])
	b[0], b[1], b[2], b[3] = byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)
	return b
}

func good(b []byte, key string) bool {
	if len(b) < 4+64 || !bytes.HasPrefix(b[4:], []byte(key)) {
		return false
	}
	sum := crc32.ChecksumIEEE(b[4:])
	return b[0] == byte(sum) && b[1] == byte(sum>>8) && b[2] == byte(sum>>16) && b[3] == byte(sum>>24)
}

func client(t *testing.T, s *cachestore.Store, th *loop.Thread, seed uint64, rounds int) {
	random := rand.New(rand.NewPCG(seed, 7))
	for range rounds {
		key := fmt.Sprintf("/%03d/", random.IntN(150))
		k := s.Key([]byte(key))
		l := s.Lookup(th, k)
		if len(l) > 0 && random.IntN(8) > 0 {
			o := l[random.IntN(len(l))]
			o.Hit()
			b, err := bodyOf(th, o)
			if err == cachestore.ErrGone {
				continue
			}
			if err != nil || !good(b, key) {
				t.Errorf("a hit of %d bytes is bad: %v", len(b), err)
			}
			continue
		}
		match := func(*cachestore.Head) bool { return random.IntN(4) > 0 }
		var r *cachestore.Reader
		var f *cachestore.Fill
		if random.IntN(2) == 0 {
			r, f = s.BeginLed(k, l, match, new(cachestore.Fill), nil)
		} else {
			r, f = s.Begin(k, l, match)
		}
		if f != nil {
			body := makeBody(random, key)
			length := int64(len(body))
			if random.IntN(2) == 0 {
				length = -1
			}
			cut := random.IntN(6) == 0
			th.Go(func(th *loop.Thread) error {
				fill(t, th, f, body, length, cut, random.IntN(4), random.IntN(20))
				if r == nil { // it is led
					f.Release()
				}
				return nil
			})
		}
		if r == nil {
			continue
		}
		if random.IntN(5) > 0 {
			r.Bind(th, -1)
			b, err := io.ReadAll(r)
			if err == nil && !good(b, key) {
				t.Errorf("%d bytes were read that are bad", len(b))
			} else if err != nil && err != io.ErrUnexpectedEOF {
				t.Errorf("a reader got %v", err)
			}
		}
		r.Close()
		switch random.IntN(60) {
		case 0:
			purge(t, th, s, cachestore.Purge{Lines: [][]byte{[]byte(key)}, Soft: random.IntN(2) == 0})
		case 1:
			purge(t, th, s, cachestore.Purge{Tags: []string{"t"}})
		}
	}
}

func purge(t *testing.T, th *loop.Thread, s *cachestore.Store, p cachestore.Purge) {
	purged := func() (struct{}, error) { return struct{}{}, s.Purge(p) }
	if _, err := loop.Call(th, purged).Await(th, -1); err != nil {
		t.Error(err)
	}
}

func fill(t *testing.T, th *loop.Thread, f *cachestore.Fill, body []byte, length int64, cut bool,
	vary, tagged int) {
	h := cachestore.Head{Vary: fmt.Sprint(vary)}
	if tagged == 0 {
		h.Tags = "t"
	}
	if tagged%2 == 1 && !cut {
		if head, _ := f.Whole(h, body); head != nil {
			return
		}
	}
	f.Start(h, length)
	whole := len(body)
	if cut {
		body = body[:len(body)/2]
	}
	for len(body) > 0 {
		n := min(len(body), 30_000)
		if err := f.Write(th, body[:n], -1); err != nil {
			if err != cachestore.ErrUnread {
				t.Error(err)
			}
			f.Abort(err)
			return
		}
		body = body[n:]
		th.Yield()
	}
	if cut && whole > 0 {
		f.Abort(io.ErrUnexpectedEOF)
	} else if _, err := f.Commit(); err != nil && err != cachestore.ErrNotKept {
		t.Error(err)
	}
}

// bodyOf returns the body of an object, wherever it is.
func bodyOf(th *loop.Thread, o *cachestore.Object) ([]byte, error) {
	if b, ok := o.Body(); ok {
		return b, nil
	}
	f, off, err := o.Open(th)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, o.Size())
	for n := 0; n < len(b); {
		k, err := syscall.Pread(int(f.Fd()), b[n:], off+int64(n))
		if err != nil || k == 0 {
			return b[:n], fmt.Errorf("a file ends after %d of %d bytes: %v", n, len(b), err)
		}
		n += k
	}
	return b, nil
}

func BenchmarkHit(b *testing.B) {
	s := store(b, 64<<20)
	var keys [][]byte
	for i := range 10_000 {
		key := fmt.Sprintf("https://www.example.org/some/path/%06d", i)
		put(b, s, key, cachestore.Head{}, strings.Repeat("b", 1024))
		keys = append(keys, []byte(key))
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			var found [2]*cachestore.Object
			o := s.Find(nil, s.Key(keys[i*7919%len(keys)]), found[:0])[0]
			o.Hit()
		}
	})
}

func BenchmarkFill(b *testing.B) {
	s := store(b, 64<<20)
	body := []byte(strings.Repeat("b", 1024))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		key := fmt.Appendf(nil, "https://www.example.org/some/path/%06d", i)
		r, f := s.Begin(s.Key(key), nil, anyone)
		f.Start(cachestore.Head{Fields: "a: b\r\n"}, 1024)
		_ = f.Write(nil, body, -1)
		_, _ = f.Commit()
		r.Close()
	}
}

func BenchmarkTrace(b *testing.B) {
	for b.Loop() {
		b.ReportMetric(trace(b, false, 500_000), "plain")
		b.ReportMetric(trace(b, true, 500_000), "scans")
	}
}

package coding_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// settled waits for a promise.
func settled(t *testing.T, p *loop.Promise[[]byte]) []byte {
	t.Helper()
	wait.Until(t, "the promise is settled", p.Ready)
	body, err := p.Value()
	if err != nil {
		t.Error(err)
	}
	return body
}

// TestCache: what was asked for longest ago makes way, what takes too much is not kept, and what
// could not be made is made again.
func TestCache(t *testing.T) {
	const limit = 100_000
	c := coding.NewCache(limit)
	key := func(name string) coding.Key { return coding.Key{Name: name} }
	has := func(name string) bool {
		t.Helper()
		p, mine := c.Get(key(name))
		if mine {
			c.Put(key(name), nil)
			if settled(t, p) != nil {
				t.Error("a promise of something that was not made")
			}
		}
		return !mine
	}
	put := func(name string, n int) {
		t.Helper()
		p, mine := c.Get(key(name))
		if !mine {
			t.Fatalf("%s is there", name)
		}
		body := bytes.Repeat([]byte(name), n)
		c.Put(key(name), body)
		if got := settled(t, p); !bytes.Equal(got, body) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
	for i := range 9 { // of some 10,500 each
		put(string(rune('a'+i)), 10_000)
	}
	if !has("a") || !has("i") || has("x") {
		t.Error("what was put is not there")
	}
	put("j", 10_000) // takes the place of b
	if !has("a") || has("b") || !has("c") || !has("j") {
		t.Error("not the one that was asked for longest ago has made way")
	}
	put("k", limit/8)
	if has("k") || !has("a") {
		t.Error("what is larger than an eighth was kept")
	}
	for i := range 1000 { // short ones take their entries
		put("short"+string(rune('a'+i)), 1)
	}
	n := 0
	for i := range 1000 {
		if has("short" + string(rune('a'+i))) {
			n++
		}
	}
	if n < 100 || n > 300 || has("a") {
		t.Errorf("%d short ones", n)
	}
	if coding.NewCache(0) != nil {
		t.Error("a cache of no bytes")
	}
	for limit, want := range map[int64]int64{32 << 20: 4 << 20, 64 << 20: 8 << 20, 1 << 30: 8 << 20} {
		if n := coding.NewCache(limit).MaxFile(); n != want {
			t.Errorf("of %d bytes: the longest file has %d, want %d", limit, n, want)
		}
	}
}

func beside(f func()) { go f() }

// TestCacheMakes: a file is made once for all that ask, and what is made is all of one state of it.
func TestCacheMakes(t *testing.T) {
	text := []byte(strings.Repeat("All work and no play makes Jack a dull boy. ", 5000))
	c := coding.NewCache(32 << 20)
	yes, no := func() bool { return true }, func() bool { return false }
	for _, as := range coding.All {
		key := coding.Key{Size: int64(len(text)), Coding: as, Level: 4}
		for _, bad := range []struct {
			why       string
			from      io.Reader
			unchanged func() bool
		}{
			{"shorter", bytes.NewReader(text[1:]), yes},
			{"changed", bytes.NewReader(text), no},
			{"an error", io.MultiReader(bytes.NewReader(text[:50_000]),
				iotest.ErrReader(errors.New("a test"))), yes},
			{"a panic", panics{}, yes},
		} {
			p, mine := c.Get(key)
			if !mine {
				t.Fatalf("before %s: not mine", bad.why)
			}
			c.Make(beside, key, bad.from, bad.unchanged)
			if body := settled(t, p); body != nil {
				t.Errorf("%s: %d bytes", bad.why, len(body))
			}
		}
		var makers atomic.Int32
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				p, mine := c.Get(key)
				if mine {
					makers.Add(1)
					c.Make(beside, key, iotest.HalfReader(bytes.NewReader(text)), yes)
				}
				wait.Until(t, "it is made", p.Ready)
				if body, err := p.Value(); err != nil || !bytes.Equal(decode(t, as, body), text) {
					t.Errorf("%v: %d bytes, %v", as, len(body), err)
				}
			})
		}
		all.Wait()
		if n := makers.Load(); n != 1 {
			t.Errorf("%v: made %d times", as, n)
		}
	}
	// Few are made at a time.
	n := int64(0)
	for ; ; n++ {
		if _, mine := c.Get(coding.Key{Size: n}); !mine {
			break
		}
	}
	if p, _ := c.Get(coding.Key{Size: n}); n == 0 || n > 1000 || p != nil {
		t.Errorf("%d at a time", n)
	}
	for n--; n >= 0; n-- {
		c.Put(coding.Key{Size: n}, nil)
	}
	if _, mine := c.Get(coding.Key{}); !mine {
		t.Error("none can be made after that")
	}
	c.Put(coding.Key{}, nil)
}

// TestCachesMakeTogether: how many files are made at a time is one number for all caches. It
// depends on how many processors the process may use.
func TestCachesMakeTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	caches := []*coding.Cache{coding.NewCache(1000), coding.NewCache(1000), coding.NewCache(1000)}
	for processors, want := range map[int]int{1: 1, 2: 1, 8: 1, 9: 2, 13: 3} {
		runtime.GOMAXPROCS(processors)
		var mine []func()
		for _, c := range caches {
			for ino := range uint64(5) {
				key := coding.Key{Ino: ino}
				if _, ok := c.Get(key); ok {
					mine = append(mine, func() { c.Put(key, nil) })
				}
			}
		}
		if len(mine) != want {
			t.Errorf("%d at a time with %d processors, want %d", len(mine), processors, want)
		}
		for _, put := range mine {
			put()
		}
	}
}

type panics struct{}

func (panics) Read([]byte) (int, error) { panic("a test") }

// TestCacheTogether: any goroutine may use it, and it stays within its limit.
func TestCacheTogether(t *testing.T) {
	c := coding.NewCache(50_000)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(g)))
			for range 3000 {
				key := coding.Key{Ino: random.Uint64N(40)}
				p, mine := c.Get(key)
				if mine && random.IntN(10) == 0 {
					c.Put(key, nil)
				} else if mine {
					c.Put(key, bytes.Repeat([]byte{byte(key.Ino)}, random.IntN(7000)))
				}
				if p == nil {
					continue
				}
				if body, _ := p.Value(); len(body) > 0 && body[0] != byte(key.Ino) {
					t.Errorf("%d has %d", key.Ino, body[0])
				}
			}
		})
	}
	all.Wait()
	if n := coding.CacheBytes(c); n > 50_000 || n < 40_000 {
		t.Errorf("%d bytes", n)
	}
}

func BenchmarkCacheGet(b *testing.B) {
	c := coding.NewCache(1 << 20)
	key := coding.Key{Dev: 1, Ino: 2, Size: 3, Modified: 4, Changed: 5, Coding: coding.Gzip, Level: 4}
	c.Get(key)
	c.Put(key, []byte("x"))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if p, _ := c.Get(key); !p.Ready() {
				b.Error("not there")
			}
		}
	})
}

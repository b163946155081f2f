package limit_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/limit"
)

func TestRate(t *testing.T) {
	for text, want := range map[string]limit.Rate{
		"10/s": {10, time.Second}, "1/m": {1, time.Minute}, "1000000/h": {1000000, time.Hour},
		"": {}, "10": {}, "10/": {}, "/s": {}, "0/s": {}, "-1/s": {}, "+1/s": {}, "1.5/s": {}, " 1/s": {},
		"1 / s": {}, "10/d": {}, "10/1s": {}, "10/s/m": {}, "1000001/s": {}, "99999999999999999999/s": {},
		"10/S": {}, "1e3/s": {}, "0x10/s": {}, "1_0/s": {},
	} {
		var r limit.Rate
		err := r.UnmarshalText([]byte(text))
		if r != want || (err == nil) != (want != limit.Rate{}) {
			t.Errorf("%q: %v, %v", text, r, err)
		}
		if err != nil && !strings.HasSuffix(err.Error(), "found "+strconv.Quote(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRate(f *testing.F) {
	for _, text := range []string{"10/s", "1/m", "1000000/h", "0/s", "10", "/", "1/s/s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r limit.Rate
		if r.UnmarshalText([]byte(text)) != nil {
			if r != (limit.Rate{}) {
				t.Errorf("%q: refused, and %v", text, r)
			}
			return
		}
		var again limit.Rate
		if err := again.UnmarshalText([]byte(r.String())); err != nil || again != r {
			t.Errorf("%q is %v, read again %v, %v", text, r, again, err)
		}
		if r.Count < 1 || r.Per/time.Duration(r.Count) < time.Microsecond {
			t.Errorf("%q: %v", text, r)
		}
	})
}

func TestZone(t *testing.T) {
	z := limit.NewZone("10/s", 3)
	const a, b, part = 1, 2, 100 * time.Millisecond
	for i, step := range []struct {
		key  uint64
		now  time.Duration
		wait time.Duration
	}{
		{a, 0, 0}, {a, 0, 0}, {a, 0, 0}, // the burst
		{a, 0, part}, {a, 0, part}, // what is refused counts nothing
		{b, 0, 0}, // another client
		{a, part - 1, 1}, {a, part, 0}, {a, part, part},
		// no more than the burst
		{a, time.Hour, 0}, {a, time.Hour, 0}, {a, time.Hour, 0}, {a, time.Hour, part},
	} {
		if wait := z.Take(step.key, step.now); wait != step.wait {
			t.Errorf("step %d: %v, want %v", i, wait, step.wait)
		}
	}
}

// TestZoneOfMillion: a million addresses need no more memory than one, and none gets more than the
// limit: whatever comes in between, no client may do what it may not do alone.
func TestZoneOfMillion(t *testing.T) {
	const burst, clients = 5, 1_000_000
	z := limit.NewZone("1/m", burst)
	// until when requests are paid off, of the clients that are looked at
	exact := map[uint64]time.Duration{}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	random := rand.New(rand.NewPCG(1, 2))
	passed, refused, watchedPassed := 0, 0, 0
	watched := make([]uint64, 100)
	for i := range watched {
		watched[i] = random.Uint64()
	}
	now := time.Duration(0)
	for i := range clients {
		now += 20 * time.Microsecond
		if z.Take(random.Uint64(), now) == 0 {
			passed++
		} else {
			refused++
		}
		if i%100 != 0 {
			continue
		}
		key := watched[random.IntN(len(watched))]
		paid := max(exact[key], now) + time.Minute
		if z.Take(key, now) == 0 {
			watchedPassed++
			if paid > now+burst*time.Minute {
				t.Fatalf("after %d clients one has more than its limit", i)
			}
			exact[key] = paid
		}
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d passed, %d refused, %d of those looked at passed", passed, refused, watchedPassed)
	if refused == 0 || passed < limit.Slots || watchedPassed < len(watched) {
		t.Error("the zone was not full, or let no one in")
	}
	if grown := int64(after.TotalAlloc - before.TotalAlloc); z.Bytes() != 2<<20 || grown > 1<<20 {
		t.Errorf("%d bytes of slots, %d more allocated", z.Bytes(), grown)
	}
}

// TestZoneInParallel: loops that share a zone do not let more pass.
func TestZoneInParallel(t *testing.T) {
	const burst = 1000
	z := limit.NewZone("1/h", burst)
	var all sync.WaitGroup
	var passed atomic.Int64
	for range 4 {
		all.Go(func() {
			for range burst {
				if z.Take(7, 0) == 0 {
					passed.Add(1)
				}
			}
		})
	}
	all.Wait()
	if passed.Load() != burst {
		t.Errorf("%d passed", passed.Load())
	}
}

func BenchmarkZone(b *testing.B) {
	for _, clients := range []uint64{1, 1_000, 1_000_000} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			z := limit.NewZone("10/s", 20)
			b.ReportAllocs()
			i := uint64(0)
			for b.Loop() {
				i++
				z.Take(i%clients*0x9e3779b97f4a7c15, time.Duration(i)*10*time.Microsecond)
			}
		})
	}
}

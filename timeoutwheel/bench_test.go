package timeoutwheel_test

import (
	"testing"

	"github.com/lwango/lwango/timeoutwheel"
)

const (
	manyTimers = 10_000
	keepAlive  = 15_000
)

// A repeater adds itself again each time it expires.
type repeater struct {
	timer timeoutwheel.Timer
	wheel *timeoutwheel.Wheel
	every int64
}

func (r *repeater) Expire() { r.wheel.Add(&r.timer, r.timer.At()+r.every) }

// newRepeaters returns a wheel at time 0 with n timers spread over the time between which each of
// them repeats.
func newRepeaters(n int, every int64) (*timeoutwheel.Wheel, []repeater) {
	w := timeoutwheel.New(0)
	r := make([]repeater, n)
	for i := range r {
		r[i] = repeater{wheel: w, every: every}
		r[i].timer.Init(&r[i])
		w.Add(&r[i].timer, 1+every*int64(i)/int64(n))
	}
	return w, r
}

func TestNoAllocation(t *testing.T) {
	w, r := newRepeaters(manyTimers, keepAlive)
	one := &repeater{wheel: w, every: 1 << 40}
	one.timer.Init(one)
	now, i := int64(0), 0
	allocs := testing.AllocsPerRun(20_000, func() {
		now++
		i = (i + 7919) % len(r)
		w.Add(&one.timer, now+int64(i))
		w.Cancel(&one.timer)
		w.Add(&r[i].timer, now+keepAlive)
		w.Advance(now)
		w.Next()
	})
	if allocs != 0 {
		t.Fatalf("%v allocations per turn", allocs)
	}
	// The time at which everything moves at once.
	if allocs := testing.AllocsPerRun(10, func() { now += 1 << 41; w.Advance(now) }); allocs != 0 {
		t.Fatalf("%v allocations per jump", allocs)
	}
}

func BenchmarkAddCancel(b *testing.B) {
	w, _ := newRepeaters(manyTimers, keepAlive)
	t := newTimer(func() {})
	b.ReportAllocs()
	at := int64(0)
	for b.Loop() {
		at = (at + 7919) % (1 << 20)
		w.Add(t, 1+at)
		w.Cancel(t)
	}
}

// One request on a keep-alive connection: its timer is pending and moves on.
func BenchmarkMove(b *testing.B) {
	w, r := newRepeaters(manyTimers, keepAlive)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i++; i == len(r) {
			i = 0
		}
		w.Add(&r[i].timer, keepAlive+int64(i))
	}
}

// One millisecond with 10,000 pending timers, of which each expires every 15 s: two expire in three
// ticks, and all cascade on their way.
func BenchmarkAdvance10000(b *testing.B) {
	w, _ := newRepeaters(manyTimers, keepAlive)
	b.ReportAllocs()
	now := int64(0)
	for b.Loop() {
		now++
		w.Advance(now)
	}
}

// The same with nothing due for years: what a turn of the loop costs.
func BenchmarkAdvanceNothingDue10000(b *testing.B) {
	w := timeoutwheel.New(0)
	for i := range int64(manyTimers) {
		w.Add(newTimer(func() {}), 1<<50+i)
	}
	b.ReportAllocs()
	now := int64(0)
	for b.Loop() {
		now++
		w.Advance(now)
	}
}

// All 10,000 expire and are added again in one Advance over 15 s.
func BenchmarkAdvanceAll10000(b *testing.B) {
	w, _ := newRepeaters(manyTimers, keepAlive)
	b.ReportAllocs()
	now := int64(0)
	for b.Loop() {
		now += keepAlive
		w.Advance(now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/manyTimers, "ns/timer")
}

func BenchmarkNext(b *testing.B) {
	w, _ := newRepeaters(manyTimers, keepAlive)
	b.ReportAllocs()
	for b.Loop() {
		w.Next()
	}
}

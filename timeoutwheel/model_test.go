package timeoutwheel_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/lwango/lwango/timeoutwheel"
)

// exactUpTo is the number of pending timers up to which Next must be exact whatever was cancelled.
// It repeats the package's limit on purpose: lowering that limit should be noticed.
const exactUpTo = 16

// A world runs a wheel and a model of it in lockstep. The model is a sorted list; what it expects
// of each Expire is known before the wheel calls it, so the callbacks can change both. All choices
// are read from a string of bytes, which makes the same driver serve random runs and the fuzzer.
type world struct {
	t     *testing.T
	data  []byte
	wheel *timeoutwheel.Wheel
	timer []*member

	// The model.
	now     int64
	added   int      // order of Add calls
	pending []*entry // sorted by (late, at, added)
	firing  []*entry // what the running Advance has still to call, or the one that has paused
	paused  bool     // in the present Advance
	removed bool     // something was cancelled or moved: Next may be early
}

type member struct {
	world *world
	timer timeoutwheel.Timer
}

type entry struct {
	who   *member
	at    int64
	added int
	late  bool // was due when added
}

func (a *entry) compare(b *entry) int {
	if a.late != b.late {
		if a.late {
			return -1
		}
		return 1
	}
	if a.late {
		return cmp.Compare(a.added, b.added)
	}
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.added, b.added))
}

var starts = []int64{
	0, 1, -1, 63, 1<<36 - 5, -1 << 36, 1_700_000_000_000,
	math.MinInt64, math.MaxInt64, math.MaxInt64 - 1000,
}

// drive runs the operations in data; it fails the test at the first difference.
func drive(t *testing.T, data []byte) {
	w := &world{t: t, data: data}
	w.now = starts[int(w.byte())%len(starts)]
	w.wheel = timeoutwheel.New(w.now)
	for range 1 + int(w.byte()) {
		m := &member{world: w}
		m.timer.Init(m)
		w.timer = append(w.timer, m)
	}
	for len(w.data) > 0 {
		switch op := w.byte(); op % 8 {
		case 0, 1, 2:
			w.add(w.pick(), w.time())
		case 3:
			w.cancel(w.pick())
		case 4:
			w.advance(w.time())
		case 5:
			w.advance(saturate(w.now, int64(op)))
		case 6:
			if at, ok := w.wheel.Next(); ok {
				w.advance(at)
			}
		case 7:
			w.untilFirst()
		}
		w.check()
	}
	w.advance(math.MaxInt64)
	w.check()
	w.advance(math.MaxInt64) // what the callbacks left behind
	if n := w.wheel.Len(); n != 0 {
		t.Fatalf("%d timers left at the end of time", n)
	}
}

func (w *world) byte() byte {
	if len(w.data) == 0 {
		return 0
	}
	b := w.data[0]
	w.data = w.data[1:]
	return b
}

func (w *world) pick() *member { return w.timer[int(w.byte())%len(w.timer)] }

// time reads a time: usually near, at times years away, at times in the past.
func (w *world) time() int64 {
	shape, size := w.byte(), int64(w.byte())
	switch {
	case shape == 255:
		return math.MaxInt64
	case shape == 254:
		return math.MinInt64
	case shape >= 240:
		return saturate(w.now, -size<<(shape%16*3))
	case shape >= 192: // every level, and beyond
		return saturate(w.now, size<<(shape%56))
	case shape >= 128: // at the edges of slots
		edge := int64(1) << (shape % 8 * 6)
		return saturate(w.now&^(edge-1), edge+size%3-1)
	default:
		return saturate(w.now, size<<(shape%12))
	}
}

func saturate(now, distance int64) int64 {
	sum := now + distance
	switch {
	case distance > 0 && sum < now:
		return math.MaxInt64
	case distance < 0 && sum > now:
		return math.MinInt64
	}
	return sum
}

func (w *world) add(m *member, at int64) {
	w.forget(m)
	w.added++
	e := &entry{who: m, at: at, added: w.added, late: at <= w.now}
	i, _ := slices.BinarySearchFunc(w.pending, e, (*entry).compare)
	w.pending = slices.Insert(w.pending, i, e)

	w.wheel.Add(&m.timer, at)
	if !m.timer.Pending() || m.timer.At() != at {
		w.t.Fatalf("after Add(%d): Pending %v, At %d", at, m.timer.Pending(), m.timer.At())
	}
}

func (w *world) cancel(m *member) {
	w.forget(m)
	w.wheel.Cancel(&m.timer)
	if m.timer.Pending() {
		w.t.Fatal("pending after Cancel")
	}
}

// forget removes m from the model, wherever it is.
func (w *world) forget(m *member) {
	ofM := func(e *entry) bool { return e.who == m }
	n := len(w.pending) + len(w.firing)
	w.pending = slices.DeleteFunc(w.pending, ofM)
	w.firing = slices.DeleteFunc(w.firing, ofM)
	if len(w.pending)+len(w.firing) != n {
		w.removed = true
	}
	if len(w.pending) == 0 {
		w.removed = false
	}
}

func (w *world) advance(now int64) {
	w.now = max(w.now, now)
	rest := w.pending[:0:0]
	for _, e := range w.pending {
		if e.at <= w.now {
			w.firing = append(w.firing, e)
		} else {
			rest = append(rest, e)
		}
	}
	w.pending = rest

	w.paused = false
	w.wheel.Advance(now)
	if len(w.firing) != 0 && !w.paused {
		w.t.Fatalf("Advance(%d) did not expire the timer for %d and %d more",
			now, w.firing[0].at, len(w.firing)-1)
	}
}

// Expire compares the call with the model's next one, then does what the bytes say from within the
// Advance.
func (m *member) Expire() {
	w := m.world
	if len(w.firing) == 0 {
		w.t.Fatalf("time %d: timer for %d expired, none is due", w.now, m.timer.At())
	}
	e := w.firing[0]
	w.firing = w.firing[1:]
	if e.who != m {
		w.t.Fatalf("time %d: timer for %d expired before the one for %d", w.now, m.timer.At(), e.at)
	}
	if m.timer.Pending() {
		w.t.Fatal("pending in its own Expire")
	}
	if w.paused {
		w.t.Fatal("expired after Pause")
	}
	switch w.byte() % 9 {
	case 1:
		w.add(m, w.time())
	case 2:
		w.add(m, w.now) // must wait for the next Advance
	case 3:
		w.add(w.pick(), w.time())
	case 4:
		w.cancel(w.pick())
	case 5: // the one that would be next
		if len(w.firing) > 0 {
			w.cancel(w.firing[0].who)
		}
	case 6: // the last one, to the end of the queue of the next Advance
		if n := len(w.firing); n > 0 {
			w.add(w.firing[n-1].who, w.now)
		}
	case 7:
		w.wheel.Pause()
		w.paused = true
	}
	w.check()
}

// untilFirst sleeps and wakes as an idle loop does, and counts the wake-ups.
func (w *world) untilFirst() {
	if len(w.pending) == 0 || len(w.firing) > 0 {
		return
	}
	var first int64 = math.MaxInt64
	for _, e := range w.pending {
		first = min(first, e.at)
	}
	// One wake-up for the timer. One in vain if its slot was last bounded by a timer since
	// cancelled; none when there are few.
	allowed := 2
	if len(w.pending) <= exactUpTo {
		allowed = 1
	}
	for n := 1; w.now < first && len(w.firing) == 0; n++ {
		if n > allowed {
			w.t.Fatalf("%d wake-ups and still before the timer for %d", allowed, first)
		}
		at, _ := w.wheel.Next()
		w.advance(at)
		w.check()
	}
}

func (w *world) check() {
	if got, want := w.wheel.Len(), len(w.pending)+len(w.firing); got != want {
		w.t.Fatalf("Len is %d, want %d", got, want)
	}
	at, ok := w.wheel.Next()
	if ok != (w.wheel.Len() > 0) {
		w.t.Fatalf("Next reports %v with %d timers", ok, w.wheel.Len())
	}
	if !ok {
		return
	}
	var first int64 = math.MaxInt64
	for _, list := range [][]*entry{w.pending, w.firing} {
		for _, e := range list {
			first = min(first, e.at)
		}
	}
	if at > first {
		w.t.Fatalf("Next is %d, later than the timer for %d", at, first)
	}
	if first > w.now {
		if at <= w.now {
			w.t.Fatalf("Next is %d, not after the time %d, and nothing is due", at, w.now)
		}
		if at != first && (!w.removed || len(w.pending) <= exactUpTo) {
			w.t.Fatalf("Next is %d, the earliest timer is for %d", at, first)
		}
	}
}

package timeoutwheel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/lwango/lwango/timeoutwheel"
)

// expireFunc is a function as a timer's owner.
type expireFunc func()

func (f expireFunc) Expire() { f() }

func newTimer(f func()) *timeoutwheel.Timer {
	t := new(timeoutwheel.Timer)
	t.Init(expireFunc(f))
	return t
}

func wantNext(t *testing.T, w *timeoutwheel.Wheel, want int64) {
	t.Helper()
	if at, ok := w.Next(); !ok || at != want {
		t.Fatalf("Next is %d, %v, want %d", at, ok, want)
	}
}

// A timer must expire at its time and not one millisecond before, whether time arrives there in one
// jump or through every time that Next names.
func TestExpiresAtItsTime(t *testing.T) {
	rows := []struct {
		now, at int64
		why     string
	}{
		{0, 1, "next tick"},
		{0, 63, "last slot of level 0"},
		{0, 64, "first of level 1"},
		{63, 64, "next tick, but on level 1"},
		{62, 65, "across a slot's edge"},
		{4095, 4096, "next tick, but on level 2"},
		{1, 15_000, "keep-alive"},
		{1<<24 - 1, 1<<24 + 1, "near, on level 4"},
		{0, 1<<36 - 1, "two years"},
		{5, 1 << 36, "two years and a little"},
		{0, 1 << 60, "the top level"},
		{-1, 0, "the sign changes, and with it every digit"},
		{-1000, 1000, "from negative to positive"},
		{math.MinInt64, math.MinInt64 + 1, "the first tick of all"},
		{math.MinInt64, math.MaxInt64, "the longest distance"},
		{math.MaxInt64 - 1, math.MaxInt64, "the last tick of all"},
		{0, math.MaxInt64, "never, for practical purposes"},
	}
	for _, row := range rows {
		t.Run(row.why, func(t *testing.T) {
			expired := 0
			timer := newTimer(func() { expired++ })

			w := timeoutwheel.New(row.now)
			w.Add(timer, row.at)
			wantNext(t, w, row.at)
			w.Advance(row.at - 1)
			if expired != 0 || !timer.Pending() {
				t.Fatal("expired early")
			}
			wantNext(t, w, row.at)
			w.Advance(row.at)
			if expired != 1 || timer.Pending() || w.Len() != 0 {
				t.Fatalf("expired %d times, pending %v", expired, timer.Pending())
			}
			if _, ok := w.Next(); ok {
				t.Fatal("Next of an empty wheel")
			}

			w = timeoutwheel.New(row.now)
			w.Add(timer, row.at)
			w.Advance(math.MaxInt64)
			if expired != 2 {
				t.Fatal("lost in a jump to the end of time")
			}
		})
	}
}

func TestOrder(t *testing.T) {
	w := timeoutwheel.New(100)
	var got []string
	add := func(name string, at int64) {
		w.Add(newTimer(func() { got = append(got, name) }), at)
	}
	add("far", 1_000_000)
	add("second a", 1100)
	add("near", 101)
	add("second b", 1100)
	add("overdue", 100)
	add("long overdue", -5)
	w.Advance(1000) // the second ones are now on another level
	add("second c", 1100)
	add("second d", 1100)
	w.Advance(2_000_000)
	want := []string{"overdue", "long overdue", "near",
		"second a", "second b", "second c", "second d", "far"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %q\nwant %q", got, want)
	}
}

func TestExpireAddsItself(t *testing.T) {
	for _, distance := range []int64{-1000, -1, 0} {
		t.Run(fmt.Sprint(distance), func(t *testing.T) {
			w := timeoutwheel.New(0)
			var timer *timeoutwheel.Timer
			n := 0
			timer = newTimer(func() {
				n++
				w.Add(timer, 500+distance)
			})
			w.Add(timer, 7)
			for i := 1; i <= 3; i++ {
				w.Advance(500)
				if n != i || !timer.Pending() {
					t.Fatalf("after %d times Advance: expired %d times", i, n)
				}
			}
			wantNext(t, w, 500+distance)
		})
	}
}

// Timers that are due in the same Advance, from one slot, from two, and late.
func TestExpireCancelsOthersDue(t *testing.T) {
	w := timeoutwheel.New(10)
	never := func() { t.Error("a cancelled timer expired") }
	var others []*timeoutwheel.Timer
	for range 4 {
		others = append(others, newTimer(never))
	}
	w.Add(newTimer(func() {
		for i, o := range others {
			if !o.Pending() {
				t.Errorf("timer %d is not pending before its Expire", i)
			}
			w.Cancel(o)
		}
		if w.Len() != 0 {
			t.Errorf("Len is %d", w.Len())
		}
	}), 3)
	w.Add(others[0], 4)
	w.Add(others[1], 11)
	w.Add(others[2], 11)
	w.Add(others[3], 5000)
	w.Advance(6000)
	w.Advance(7000)
}

// A timer that is due but moved into the future by an earlier one stays quiet.
func TestExpireMovesAnother(t *testing.T) {
	w := timeoutwheel.New(0)
	expired := false
	other := newTimer(func() { expired = true })
	w.Add(newTimer(func() { w.Add(other, 300) }), 50)
	w.Add(other, 60)
	w.Advance(299)
	if expired || !other.Pending() {
		t.Fatal("expired at its old time")
	}
	w.Advance(300)
	if !expired {
		t.Fatal("lost")
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	w := timeoutwheel.New(1000)
	n := 0
	w.Add(newTimer(func() { n++ }), 900)
	w.Add(newTimer(func() { n += 10 }), 1001)
	w.Advance(500)
	if n != 1 {
		t.Fatalf("n is %d: an earlier time must still run what is due", n)
	}
	w.Advance(1000)
	if n != 1 {
		t.Fatal("expired early")
	}
	w.Advance(1001)
	if n != 11 {
		t.Fatal("lost")
	}
}

// A loop at rest must not wake for timers that are gone.
func TestNextAfterCancel(t *testing.T) {
	w := timeoutwheel.New(0)
	early, late := newTimer(func() {}), newTimer(func() {})
	w.Add(early, 5000)
	w.Add(late, 5500) // in the same slot
	w.Cancel(early)
	wantNext(t, w, 5500)
	w.Cancel(late)
	if at, ok := w.Next(); ok {
		t.Fatalf("Next of an empty wheel is %d", at)
	}

	// The most for which it must be exact, in the order that hides the earliest.
	w.Add(early, 5000)
	for i := range int64(exactUpTo) {
		w.Add(newTimer(func() {}), 6000-i)
	}
	w.Cancel(early)
	wantNext(t, w, 6000-exactUpTo+1)
	w.Advance(6000)

	// With many in the slot it may wake once for a time that is gone, not more.
	w.Add(early, 10_000)
	for i := range int64(100) {
		w.Add(newTimer(func() {}), 10_100+i)
	}
	w.Cancel(early)
	wakes := 0
	for w.Len() == 100 {
		at, _ := w.Next()
		w.Advance(at)
		wakes++
	}
	if wakes > 2 {
		t.Fatalf("%d wake-ups for one timer", wakes)
	}
}

func TestExpirePanics(t *testing.T) {
	w := timeoutwheel.New(0)
	n := 0
	w.Add(newTimer(func() { n++ }), 1)
	w.Add(newTimer(func() { panic("in Expire") }), 2)
	w.Add(newTimer(func() { n++ }), 3)
	mustPanic(t, func() { w.Advance(10) })
	if n != 1 || w.Len() != 1 {
		t.Fatalf("%d expired, %d pending", n, w.Len())
	}
	if at, ok := w.Next(); !ok || at > 3 {
		t.Fatalf("Next is %d, %v with a timer due", at, ok)
	}
	w.Advance(10)
	if n != 2 {
		t.Fatal("a timer was lost behind the panic")
	}
}

func TestMisuse(t *testing.T) {
	w := timeoutwheel.New(0)
	mustPanic(t, func() { w.Add(new(timeoutwheel.Timer), 1) })
	w.Add(newTimer(func() { w.Advance(20) }), 1)
	mustPanic(t, func() { w.Advance(10) })
	w.Cancel(new(timeoutwheel.Timer))
}

func mustPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

// Every connection holds a Timer.
func TestTimerSize(t *testing.T) {
	if size := unsafe.Sizeof(timeoutwheel.Timer{}); size > 40 {
		t.Fatalf("a Timer is %d bytes", size)
	}
}

package http2_test

import (
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// TestGrowth: windows grow by 64 MiB together, and the last ones by less than the first.
func TestGrowth(t *testing.T) {
	var g http2.WindowBudget
	const mib = 1 << 20
	if g.Take(17 * mib) {
		t.Error("more than a quarter")
	}
	taken := int64(0)
	for n := int64(16 * mib); n > 0; n /= 2 {
		for g.Take(n) {
			taken += n
		}
	}
	if taken != g.Taken() || taken > 64*mib || taken < 63*mib || g.Take(mib) {
		t.Errorf("%d bytes taken, %d counted", taken, g.Taken())
	}
	g.Give(taken)
	if !g.Take(16 * mib) {
		t.Error("not given back")
	}
	if g.TakeMore(16*mib, 1) || !g.TakeMore(1*mib, 11*mib) {
		t.Error("a quarter is for one, however it takes that")
	}
}

// TestInflow: credit is announced by halves of the window, or in smaller parts where little is left
// of it, and is never more than the window.
func TestInflow(t *testing.T) {
	f := http2.Inflow{Size: 100, Window: 100}
	for i, step := range []struct{ came, back, more, want, credit int64 }{
		{came: 60, credit: 40},
		{back: 49, credit: 40},
		{back: 1, want: 50, credit: 90},
		{came: 70, back: 5, credit: 20}, // 70 are not read
		{back: 1, want: 6, credit: 26},
		{came: 26, back: 1, want: 1, credit: 1},
		{back: 93, more: 100, want: 193, credit: 194},
		{came: 54, back: 54, credit: 140},
		{back: 6, credit: 140}, // all is read, and less than half of 200 is to be announced
	} {
		if ok := f.Received(step.came); !ok {
			t.Error(i, "refused")
		}
		if got := f.Return(step.back, step.more); got != step.want || f.Window != step.credit {
			t.Errorf("step %d: %d announced, want %d; credit %d, want %d", i, got, step.want, f.Window,
				step.credit)
		}
	}
	if f.Size != 200 || f.Received(141) {
		t.Error(f)
	}
}

package timeoutwheel_test

import (
	"fmt"

	"github.com/lwango/lwango/timeoutwheel"
)

// retry is tried again and again, at growing distances.
type retry struct {
	wheel *timeoutwheel.Wheel
	timer timeoutwheel.Timer
	after int64
	tries int
}

func (r *retry) Expire() {
	if r.tries++; r.tries < 4 {
		r.after *= 2
		r.wheel.Add(&r.timer, r.timer.At()+r.after)
	}
}

// A timer that has expired is idle, and its owner can add it again.
func ExampleTimer() {
	w := timeoutwheel.New(0)
	r := &retry{wheel: w, after: 100}
	r.timer.Init(r)
	w.Add(&r.timer, r.after)
	for _, now := range []int64{99, 100, 300, 700, 1500} {
		w.Advance(now)
		fmt.Println("at", now, "tries", r.tries, "pending", r.timer.Pending())
	}
	// Output:
	// at 99 tries 0 pending true
	// at 100 tries 1 pending true
	// at 300 tries 2 pending true
	// at 700 tries 3 pending true
	// at 1500 tries 4 pending false
}

package main

import "time"

const (
	burst = 20 // frames that a client may send at once
	rate  = 5  // frames a second in the long run
)

// allowance is how many frames a client may still send: a bucket that holds burst and fills at rate.
type allowance struct {
	frames float64
	since  time.Time
}

func newAllowance(now time.Time) allowance { return allowance{burst, now} }

// take takes a frame out, and reports whether there was one.
func (a *allowance) take(now time.Time) bool {
	a.frames = min(a.frames+now.Sub(a.since).Seconds()*rate, burst)
	a.since = now
	if a.frames < 1 {
		return false
	}
	a.frames--
	return true
}

package main

import "time"

// What a client may send. Messages beyond their allowance wait for it, up to maxHeld of them.
// Typing frames beyond theirs are dropped. A client that sends more frames, of whatever kind, is
// sent away.
const (
	burst = 20 // messages at once
	rate  = 5  // messages a second in the long run

	maxHeld      = 32       // messages that wait
	maxHeldBytes = 64 << 10 // of their text

	typingBurst, typingRate = 3, 1
	frameBurst, frameRate   = 200, 50

	olderCost = 10 // frames that a request for older messages counts as: its answer is long
)

// allowance is how much of something a client may still do: a bucket that holds burst and fills at
// rate.
type allowance struct {
	burst, rate float64
	left        float64
	since       time.Time
}

// newAllowance returns a full one. rate is per second.
func newAllowance(burst, rate float64, now time.Time) allowance {
	return allowance{burst: burst, rate: rate, left: burst, since: now}
}

// fill adds what has accrued since the last call.
func (a *allowance) fill(now time.Time) {
	a.left = min(a.left+now.Sub(a.since).Seconds()*a.rate, a.burst)
	a.since = now
}

// take takes n out, and reports whether they were there.
func (a *allowance) take(n float64, now time.Time) bool {
	if a.fill(now); a.left < n {
		return false
	}
	a.left -= n
	return true
}

// full reports whether nothing is missing.
func (a *allowance) full(now time.Time) bool {
	a.fill(now)
	return a.left == a.burst
}

// wait returns how long it takes until there is one.
func (a *allowance) wait(now time.Time) time.Duration {
	a.fill(now)
	d := time.Duration(max(1-a.left, 0) / a.rate * float64(time.Second))
	return d + time.Millisecond // so that it is there then, whatever was rounded
}

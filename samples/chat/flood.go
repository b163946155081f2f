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

	olderCost = 10 // frames that a request for older messages counts as: its answer is long
)

var (
	sayLimit    = limit{burst, rate}
	typingLimit = limit{3, 1}
	frameLimit  = limit{200, 50}
)

// limit is how much of something a client may do: a bucket that holds burst and fills at rate.
type limit struct{ burst, rate int } // rate: per second

// allowance is such a bucket: the time when it is full, after start. The zero allowance is full.
type allowance time.Duration

// start is when this process has begun.
var start = time.Now()

// time returns how long it takes until there are n more.
func (l limit) time(n float64) allowance {
	return allowance(n / float64(l.rate) * float64(time.Second))
}

// take takes n out, and reports whether they were there.
func (a *allowance) take(l limit, n float64, now time.Time) bool {
	at := allowance(now.Sub(start))
	full := max(*a, at) + l.time(n)
	if full > at+l.time(float64(l.burst)) {
		return false
	}
	*a = full
	return true
}

// full reports whether nothing is missing.
func (a *allowance) full(now time.Time) bool { return *a <= allowance(now.Sub(start)) }

// wait returns how long it takes until there is one.
func (a *allowance) wait(l limit, now time.Time) time.Duration {
	d := *a + l.time(1) - l.time(float64(l.burst)) - allowance(now.Sub(start))
	return time.Duration(max(d, 0)) + time.Millisecond // so that it is there, whatever was rounded
}

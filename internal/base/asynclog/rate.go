package asynclog

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	burst     = 50 // lines of one message that are logged at once
	perSecond = 10 // and then
	// reportAfter is how long lines are left out before their number is logged.
	reportAfter = 5 * time.Second
	// maxKinds bounds the messages that have a bucket each. This module has some hundred; a program
	// may make any number.
	maxKinds = 1000

	// Lines of all messages together take at most 64 MiB at once, and then some 340 MiB a day: a
	// client that causes many kinds of them must not fill a disk.
	burstBytes     = 64 << 20
	bytesPerSecond = 4 << 10
)

// rates has a token bucket for each message.
type rates struct {
	report func(message string, n int)

	mu    sync.Mutex
	kinds map[string]*kind
	timer *time.Timer // calls reportLeftOut; nil: no line was left out

	spent   float64   // bytes of lines that bytesPerSecond has not made up for
	spentAt time.Time // as of then
	lost    *atomic.Int64
}

type kind struct {
	tokens float64
	at     time.Time // when that many were there
	out    int       // lines left out, not reported yet
}

// allow reports whether one more line of a message is logged.
func (r *rates) allow(message string) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kinds[message]
	if k == nil {
		k = r.add(message, now)
	}
	k.tokens = min(k.tokens+perSecond*now.Sub(k.at).Seconds(), burst)
	k.at = now
	r.spent = max(r.spent-bytesPerSecond*now.Sub(r.spentAt).Seconds(), 0)
	r.spentAt = now
	if k.tokens >= 1 && r.spent < burstBytes {
		k.tokens--
		return true
	}
	k.out++
	r.lost.Add(1)
	if r.timer == nil {
		r.timer = time.AfterFunc(reportAfter, r.reportLeftOut)
	}
	return false
}

// spend notes that a line of n bytes was logged.
func (r *rates) spend(n int) {
	r.mu.Lock()
	r.spent += float64(n)
	r.mu.Unlock()
}

// add adds a bucket for a new message. If there are too many, all further messages share one.
func (r *rates) add(message string, now time.Time) *kind {
	if r.kinds == nil {
		r.kinds = map[string]*kind{}
	}
	if len(r.kinds) >= maxKinds {
		for m, k := range r.kinds {
			if k.out == 0 && k.tokens+perSecond*now.Sub(k.at).Seconds() >= burst {
				delete(r.kinds, m) // as good as new
			}
		}
	}
	if len(r.kinds) >= maxKinds {
		message = "others"
		if k := r.kinds[message]; k != nil {
			return k
		}
	}
	k := &kind{tokens: burst, at: now}
	r.kinds[message] = k
	return k
}

// reportLeftOut reports what was left out since the last time.
func (r *rates) reportLeftOut() {
	r.mu.Lock()
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	out := map[string]int{}
	for message, k := range r.kinds {
		if k.out > 0 {
			out[message] = k.out
			k.out = 0
		}
	}
	r.mu.Unlock()
	for message, n := range out {
		r.report(message, n)
	}
}

package upstream

import (
	"time"

	"github.com/lwango/lwango/loop"
)

// Resend lets a lease whose request was sent in vain try all upstreams once more, the first time,
// if TryFor is not over, nor what Tries and Within allow. The next Connect begins with a pause.
func (l *Lease) Resend() bool {
	if l.resent || !l.renew() {
		return false
	}
	l.resent = true
	return true
}

// renew does so any number of times, for a lease that could connect to none of them. Tries and
// Within count only once an upstream has had the request.
func (l *Lease) renew() bool {
	since := loop.Now() - l.began
	if l.group.TryFor == 0 || since >= l.group.TryFor || l.asked > 0 &&
		(l.Tries > 0 && l.asked >= l.Tries || l.Within > 0 && since >= l.Within) {
		return false
	}
	l.tried = nil
	l.rounds++
	return true
}

// A pause before the first round that follows another one, and the longest one. An application is
// back in milliseconds or in seconds, and a thousand requests may wait for it.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = 200 * time.Millisecond
)

// pause waits on t before a round.
func (l *Lease) pause(t *loop.Thread) error {
	l.paused = l.rounds
	d := mostPause
	if l.rounds < 6 {
		d = min(d, firstPause<<(l.rounds-1))
	}
	return t.Sleep(min(d, max(l.group.TryFor-(loop.Now()-l.began), 0)))
}

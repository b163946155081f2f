package upstream

import (
	"time"

	"github.com/lwango/lwango/loop"
)

// Resend lets a lease whose request was sent in vain try all upstreams once more, once, within
// TryFor, Tries and Within. The next Connect begins with a pause.
func (l *Lease) Resend() bool {
	if l.resent || !l.renew() {
		return false
	}
	l.resent = true
	return true
}

// renew is Resend any number of times, for a lease that could connect to no upstream. Tries and
// Within count only once an upstream has had the request.
func (l *Lease) renew() bool {
	since := loop.Now() - l.began
	if l.group.TryFor == 0 || since >= l.group.TryFor || l.sentTo > 0 &&
		(l.Tries > 0 && l.sentTo >= l.Tries || l.Within > 0 && since >= l.Within) {
		return false
	}
	l.tried = nil
	l.rounds++
	return true
}

// The first pause between two rounds, and the longest one. An application may be back in
// milliseconds or in seconds, and a thousand requests may wait for it.
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

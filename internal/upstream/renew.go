package upstream

import (
	"time"

	"github.com/lwango/lwango/loop"
)

// Renew lets a lease that has tried all upstreams try them once more, if TryFor is not over. The next
// Connect begins with a pause.
func (l *Lease) Renew() bool {
	if l.group.TryFor == 0 || time.Since(l.began) >= l.group.TryFor {
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
	if l.rounds == l.paused {
		return nil
	}
	l.paused = l.rounds
	d := mostPause
	if l.rounds < 6 {
		d = min(d, firstPause<<(l.rounds-1))
	}
	return t.Sleep(min(d, max(l.group.TryFor-time.Since(l.began), 0)))
}

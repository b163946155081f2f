package engine

import (
	"context"
	"time"

	"github.com/lwango/lwango/pubsub"
)

const (
	lateAfter = 250 * time.Millisecond
	warnEvery = time.Minute

	// Soon is when a Backlog is to be offered again: each time lets a little of the patience of Offer
	// pass, see pubsub.Feed.
	Soon = time.Millisecond
)

// Late reports whether a message of this process goes to the broker so long after it was published
// that others should take it for one of an outage: it says so to them, whose clocks may be others.
func Late(m *pubsub.Message) bool { return time.Since(m.Time) > lateAfter }

// Backlog is what was read for a Feed, and has no room there yet. One goroutine uses it.
type Backlog struct {
	to     *pubsub.Feed
	base   *Base
	name   string // of the topic, or the pattern
	ms     []*pubsub.Message
	lost   int // that the log does not tell of yet
	warned time.Time
}

// Backlog makes one for what is called name in the log.
func (b *Base) Backlog(name string, to *pubsub.Feed) Backlog {
	return Backlog{to: to, base: b, name: name}
}

// Add gives the Feed the next messages. If they are late, because of an outage, those for which it
// has no room wait, as does whatever is added then; else it takes all of them.
func (b *Backlog) Add(ms []*pubsub.Message, late bool) {
	switch {
	case len(ms) == 0:
	case late || len(b.ms) > 0:
		b.ms = b.to.Offer(append(b.ms, ms...))
	default:
		b.to.Deliver(ms)
	}
}

// Retry offers what waits once more, and reports whether there is still something that does.
func (b *Backlog) Retry() (waits bool) {
	b.ms = b.to.Offer(b.ms)
	return len(b.ms) > 0
}

// Offering waits for d, and calls offer at the beginning, and again each millisecond while it
// reports that something waits for room: what was read does not wait for the broker as well. The
// error is that of ctx.
func Offering(ctx context.Context, d time.Duration, offer func() (waits bool)) error {
	over := time.After(d)
	for {
		var again <-chan time.Time
		if offer() {
			again = time.After(Soon)
		}
		select {
		case <-over:
			return nil
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Waiting returns how many messages wait, and their bytes.
func (b *Backlog) Waiting() (n, bytes int) {
	for _, m := range b.ms {
		bytes += len(m.Data)
	}
	return len(b.ms), bytes
}

// Lost returns what is to be added in the place of n messages that the broker has dropped before
// they were read. It tells the log, once a minute.
func (b *Backlog) Lost(n int) *pubsub.Message {
	b.lost += n
	if time.Since(b.warned) > warnEvery {
		b.base.Log.Warn(b.base.name+": messages were lost before they were read", "topic", b.name,
			"lost", b.lost)
		b.warned, b.lost = time.Now(), 0
	}
	return pubsub.Lost(n)
}

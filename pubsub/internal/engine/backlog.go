package engine

import (
	"context"
	"time"

	"github.com/lwango/lwango/pubsub"
)

const (
	lateAfter = 250 * time.Millisecond
	warnEvery = time.Minute

	// RetryAfter is the time between two calls of Retry for a Backlog: pubsub.Feed.Offer wants to be
	// called so often.
	RetryAfter = time.Millisecond
)

// Late reports whether a message of this process is sent to the broker so long after it was
// published that other processes should treat it as one of an outage. The message says so itself,
// since the clocks of processes may differ.
func Late(m *pubsub.Message) bool { return time.Since(m.Time) > lateAfter }

// Backlog has messages that were read for a Feed, which has no room for them yet. One goroutine
// uses it.
type Backlog struct {
	feed    *pubsub.Feed
	base    *Base
	name    string // of the topic, or the pattern
	waiting []*pubsub.Message
	lost    int // messages that no line of the log has counted yet
	warned  time.Time
}

// Backlog makes a Backlog for a topic or pattern that lines of the log call name.
func (b *Base) Backlog(name string, to *pubsub.Feed) Backlog {
	return Backlog{feed: to, base: b, name: name}
}

// Add gives the Feed the next messages. If they are late, because of an outage, those for which the
// Feed has no room wait in the Backlog, and so do all that are added while some wait. Otherwise the
// Feed takes all of them.
func (b *Backlog) Add(ms []*pubsub.Message, late bool) {
	switch {
	case len(ms) == 0:
	case late || len(b.waiting) > 0:
		b.waiting = b.feed.Offer(append(b.waiting, ms...))
	default:
		b.feed.Deliver(ms)
	}
}

// Retry offers the waiting messages once more, and reports whether some still wait.
func (b *Backlog) Retry() (waits bool) {
	b.waiting = b.feed.Offer(b.waiting)
	return len(b.waiting) > 0
}

// WaitOffering waits for d, and calls offer at the beginning, and again each millisecond while
// offer reports that messages wait for room: they need not wait for the broker as well. The error
// is that of ctx.
func WaitOffering(ctx context.Context, d time.Duration, offer func() (waits bool)) error {
	over := time.After(d)
	for {
		var again <-chan time.Time
		if offer() {
			again = time.After(RetryAfter)
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

// Waiting returns the number of waiting messages and of their bytes.
func (b *Backlog) Waiting() (n, bytes int) {
	for _, m := range b.waiting {
		bytes += len(m.Data)
	}
	return len(b.waiting), bytes
}

// Lost returns what to Add in place of n messages that the broker has dropped before they were
// read. It logs that, once a minute.
func (b *Backlog) Lost(n int) *pubsub.Message {
	b.lost += n
	if time.Since(b.warned) > warnEvery {
		b.base.Log.Warn(b.base.name+": messages were lost before they were read", "topic", b.name,
			"lost", b.lost)
		b.warned, b.lost = time.Now(), 0
	}
	return pubsub.Lost(n)
}

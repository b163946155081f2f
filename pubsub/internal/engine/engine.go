// Package engine has what the engines of pubsub share: the queue of messages to a broker, the
// goroutines that send them, the last message read of each origin, and whether the broker is
// reached.
//
//	engine.go   Base: start, stop, whether messages are carried; Backoff
//	outbox.go   the queue and the goroutines that send it
//	number.go   IDs of messages
//	recent.go   which messages were read before, and which are missing
//	backlog.go  messages that were read, on their way to a Feed
package engine

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/lwango/lwango/pubsub"
)

const (
	// AnswerTimeout is how long an answer of a broker may take.
	AnswerTimeout = 2 * time.Second

	firstWait = 50 * time.Millisecond
	maxWait   = time.Second // between two attempts to connect
)

// Base is the part of an engine that does not depend on its broker. Any goroutine may call its
// methods.
type Base struct {
	Hub     *pubsub.Hub
	Log     *slog.Logger
	Context context.Context // ends when Close stops waiting

	name   string // what lines of the log begin with
	cancel context.CancelFunc
	queue  queue

	health struct {
		sync.Mutex
		cut map[any]bool // goroutines that do not reach the broker
	}
}

// New returns the base of an engine of hub. Lines of its log begin with name.
func New(hub *pubsub.Hub, log *slog.Logger, name string) *Base {
	b := &Base{Hub: hub, Log: log, name: name}
	b.Context, b.cancel = context.WithCancel(context.Background())
	b.health.cut = make(map[any]bool)
	return b
}

// Close lets the outboxes send their messages, within the grace period, and ends the context.
// Messages that are published later stay in the process. It returns how many messages were not
// sent.
func (b *Base) Close(grace time.Duration) (unsent int) {
	b.Hub.Disconnecting()
	written := make(chan struct{})
	go func() {
		defer close(written)
		b.queue.close()
	}()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
	}
	b.cancel()
	<-written
	return b.Pending()
}

// Report notes whether a goroutine reaches the broker. It tells the hub when all of them do, and
// when one of them no longer does.
func (b *Base) Report(who any, err error) {
	h := &b.health
	h.Lock()
	defer h.Unlock()
	was := len(h.cut) == 0
	if delete(h.cut, who); err != nil {
		h.cut[who] = true
	}
	is := len(h.cut) == 0
	switch {
	case b.Context.Err() != nil || was == is:
		return
	case is:
		b.Log.Info(b.name+": topics are carried again", "lost", b.Lost())
	default:
		b.Log.Warn(b.name+": topics are not carried to other processes", "error", err)
	}
	b.Hub.SetCarried(is)
}

// Within returns a context for a command that blocks at the broker for d at most.
func (b *Base) Within(d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(b.Context, d+AnswerTimeout)
}

// Pause waits for d. It returns false if the engine is closed meanwhile.
func (b *Base) Pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-b.Context.Done():
		return false
	}
}

// Backoff counts failed attempts. The zero Backoff has counted none.
type Backoff struct{ wait time.Duration }

// Next returns how long to wait before the next attempt. The time grows with each attempt, and is
// random, so that processes that have lost the same broker do not all reconnect at once.
func (b *Backoff) Next() time.Duration {
	b.wait = min(max(2*b.wait, firstWait), maxWait)
	return b.wait/2 + rand.N(b.wait)
}

// Reset forgets the attempts, after one has succeeded.
func (b *Backoff) Reset() { b.wait = 0 }

package redis

import "github.com/lwango/lwango/pubsub/internal/engine"

// MaxQueued is how many messages wait for the broker at most.
const MaxQueued = engine.MaxQueued

// Pending returns how many messages the broker has not acknowledged.
func (e *Engine) Pending() int { return e.base.Pending() }

// Parse is parseEntry.
var Parse = parseEntry

// Readers returns how many goroutines read.
func (e *Engine) Readers() (n int) {
	for _, s := range e.shards {
		s.mu.Lock()
		n += len(s.readers)
		s.mu.Unlock()
	}
	return n
}

// PerReader is how many topics one of them reads.
const PerReader = perReader

// Heartbeat is what a read blocks for.
const Heartbeat = heartbeat

// Groups returns how many queue groups the process is in, or has not left yet.
func (e *Engine) Groups() int {
	e.selections.mu.Lock()
	defer e.selections.mu.Unlock()
	return len(e.selections.all) + len(e.selections.leaving)
}

// Variables that tests set before they start an engine.
var (
	AckWait    = &ackWait
	Memberless = &memberless
	Forgotten  = &forgotten
)

// Key returns the key of a topic's stream.
func (e *Engine) Key(topic string) string { return e.shard(topic).prefix + topicKeys + topic }

// Tags are the names of a cluster's shards.
var Tags = tags[:]

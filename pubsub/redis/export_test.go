package redis

// MaxQueued is how many messages wait for the broker at most.
const MaxQueued = maxQueued

// Pending returns how many messages the broker has not acknowledged.
func (e *Engine) Pending() int { return e.queue.len() }

// Parse is parse.
var Parse = parse

// Readers returns how many goroutines read.
func (e *Engine) Readers() int {
	e.readers.mu.Lock()
	defer e.readers.mu.Unlock()
	return len(e.readers.all)
}

// PerReader is how many topics one of them reads.
const PerReader = perReader

// Heartbeat is what a read blocks for.
const Heartbeat = heartbeat

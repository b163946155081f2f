package redis

// MaxQueued is how many messages wait for the broker at most.
const MaxQueued = maxQueued

// Pending returns how many messages the broker has not acknowledged.
func (e *Engine) Pending() int { return e.queue.len() }

// Parse is parse.
var Parse = parse

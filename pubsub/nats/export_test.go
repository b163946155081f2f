package nats

// Pending returns how many messages the broker has not acknowledged.
func (e *Engine) Pending() int { return e.base.Pending() }

// Token is what stands for a topic in subjects.
var Token = token

// Changes returns how many topics are still to be followed, or not any more.
func (e *Engine) Changes() int {
	e.reader.mu.Lock()
	defer e.reader.mu.Unlock()
	return len(e.reader.changes) + len(e.reader.waiting)
}

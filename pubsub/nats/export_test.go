package nats

// Pending returns how many messages the broker has not acknowledged.
func (e *Engine) Pending() int { return e.base.Pending() }

// Token is what stands for a topic in subjects.
var Token = token

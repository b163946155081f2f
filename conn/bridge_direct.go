package conn

import "time"

// In bulk, the handler's goroutine moves the bytes itself: a change to the thread and back costs
// more than sending or receiving 32 KiB. It may do so while the thread is parked, that is, between
// Watch and Unwatch. Both take the crossing's lock. So whatever wakes the thread, a kill included,
// it cannot go on, touch the turn or let its descriptor be closed while the handler's goroutine
// holds the lock. That goroutine never waits in a system call. It leaves everything else to the
// thread: the head, a full socket, an error, the end, a deadline that has passed, TLS, an encoder.

// past reports whether a deadline that the handler has set has passed.
func past(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// leastDirect is how many bytes are worth a system call. Fewer are gathered.
const leastDirect = 16 << 10

// sendDirect sends p to the client, under the lock. It reports false if the thread has to do that.
// What the client has no room for is held, and the thread is told. Without news the thread has seen
// all that the handler wants, and the stream has the handler's deadline.
func (c *crossing) sendDirect(p []byte) bool {
	if !c.parked || c.room != widePipe || c.news || past(c.limits.write) {
		return false
	}
	w := c.resp
	t, ok := w.x.via.(*turn)
	switch {
	case !ok, t.c.tls != nil, t.writeErr != nil, t.writing.MaxRate > 0, c.duplex.Held() > 0:
		return false
	case !w.HeadSent(), w.enc != nil, w.plan.bare:
		return false
	case w.size >= 0 && int64(len(p)) > w.left:
		return false
	}
	t.duplex.Aside(true)
	_ = w.stream(p) // the conditions above leave no error: what cannot be sent is held
	t.duplex.Aside(false)
	if c.duplex.Held() > 0 {
		c.tell()
	}
	return true
}

// readDirect reads some of the body into p, under the lock. It returns 0 if the thread has to do
// that, as always when the thread's last read has emptied the socket: the next one probably waits.
func (c *crossing) readDirect(p []byte) int {
	if !c.parked || !c.more || c.asked || past(c.limits.read) {
		return 0
	}
	b := &c.resp.x.req.body
	t, ok := b.x.via.(*turn)
	if !ok || t.c.tls != nil || b.state != bodyOpen || b.ask {
		return 0
	}
	to := p
	if len(p) < leastDirect {
		to = c.inBuf
	}
	t.duplex.Aside(true)
	n, _ := b.take(to, false) // the thread's next read returns an error that is no wait
	t.duplex.Aside(false)
	if len(p) < leastDirect {
		c.in = to[:n]
		n = copy(p, c.in)
		c.in = c.in[n:]
	}
	return n
}

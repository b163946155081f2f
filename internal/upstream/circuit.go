package upstream

import (
	"errors"
	"time"

	"github.com/lwango/lwango/loop"
)

// Circuit says when an address gets no requests any more, though the group may have no other: too
// large a share of them has failed. That spares an application that is overloaded, and its clients
// a wait. After a while one request at a time tries whether it works.
type Circuit struct {
	Percent int           // how many of 100 requests fail, at least
	Least   int           // requests in Window; of fewer, no share is taken
	Window  time.Duration // in which they are counted
	Open    time.Duration // for how long no request is sent

	// Changed is called when the circuit of an address opens and closes. It must not wait.
	Changed func(name string, open bool, failed, requests int)
}

var errOpen = errors.New("too many requests have failed there")

// outcome is the result that a slot has for its server's circuit.
type outcome uint8

const (
	unknown outcome = iota // nothing: the client has left, or it was the first part of an attempt
	worked
	failed
)

// circuit is the state of a server's circuit. The pool's lock guards it. The zero value is closed.
type circuit struct {
	since            time.Time // of the window
	requests, failed int       // in the window
	until            time.Time // when it is tried again; zero: it is closed
	probing          bool      // a request tries it
}

// open reports whether the server gets no request now.
func (c *circuit) open(now time.Time) bool {
	return !c.until.IsZero() && (c.probing || now.Before(c.until))
}

// enter notes that a request goes to the server, and reports whether it tries it.
func (c *circuit) enter(now time.Time) (probes bool) {
	c.probing = !c.until.IsZero()
	return c.probing
}

// broken reports whether the circuits are open of all servers to which the request may go. The
// caller holds the pool's lock.
func (l *Lease) broken(now time.Duration) bool {
	for srv := range l.group.untried(l.tried) {
		if !srv.circuit.open(loop.At(now)) {
			return false
		}
	}
	return len(l.group.servers) > 0 && l.stickyServer(now) == nil // it may be drained, and no server
}

// shut has the server get no requests until the time of Open is over. Then those are served that
// wait for it and for others: no other event may tell them. The caller holds the pool's lock.
func (srv *server) shut(s *Circuit, now time.Time) {
	srv.circuit.until = now.Add(s.Open)
	time.AfterFunc(s.Open, func() {
		srv.pool.mu.Lock()
		srv.serve(nil)
		srv.pool.mu.Unlock()
	})
}

// reportProbe has a slot that tries its address say at once what it has found: it may be a
// tunnel's, and kept for hours.
func (l *Lease) reportProbe() {
	if !l.probes {
		return
	}
	l.group.pool.mu.Lock()
	report := l.judge(time.Now())
	l.server.serve(nil)
	l.group.pool.mu.Unlock()
	if report != nil {
		report()
	}
}

// judge counts the outcome of the slot, unless it has done so. What it returns, if anything, is to
// be called without the pool's lock, which the caller holds.
func (l *Lease) judge(now time.Time) (report func()) {
	g, srv, s := l.group, l.server, l.group.Circuit
	if s == nil || l.judged {
		return nil
	}
	c := &srv.circuit
	if l.probes {
		l.probes, l.judged, c.probing = false, true, false
		switch l.outcome {
		case worked:
			*c = circuit{}
			return func() { s.Changed(srv.title(), false, 0, 0) }
		case failed:
			srv.shut(s, now)
			g.refuse()
		}
		return nil
	}
	if l.outcome == unknown || !c.until.IsZero() { // it began before the circuit has opened
		return nil
	}
	if now.Sub(c.since) > s.Window {
		*c = circuit{since: now}
	}
	c.requests++
	if l.outcome == failed {
		c.failed++
	}
	if c.requests < s.Least || c.failed*100 < s.Percent*c.requests {
		return nil
	}
	srv.shut(s, now)
	g.refuse()
	requests, failed := c.requests, c.failed
	return func() { s.Changed(srv.title(), true, failed, requests) }
}

// refuse ends the wait of all requests for which all circuits are open.
func (g *Group) refuse() {
	var waiting []*waiter
	for e := range g.waiting.All() {
		waiting = append(waiting, e.Value)
	}
	now := loop.Now()
	for _, w := range waiting {
		if w.lease.broken(now) {
			w.withdraw()
			w.promise.Reject(errOpen)
		}
	}
}

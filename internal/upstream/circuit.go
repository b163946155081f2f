package upstream

import (
	"errors"
	"time"
)

// Circuit says when an address gets no requests any more, though the group may have no other: too
// large a share of them has failed. That spares an application that is overloaded, and its clients a
// wait. After a while one request at a time tries whether it works.
type Circuit struct {
	Percent int           // how many of 100 requests fail, at least
	Least   int           // requests in Window; of fewer, no share is taken
	Window  time.Duration // in which they are counted
	Open    time.Duration // for how long no request is sent

	// Changed is called when the circuit of an address opens and closes. It must not wait.
	Changed func(name string, open bool, failed, requests int)
}

var errOpen = errors.New("too many requests have failed there")

// outcome is what a slot tells of its address.
type outcome uint8

const (
	unknown outcome = iota // nothing: the client has left, or it was the first part of an attempt
	worked
	failed
)

// circuit is the state of a member's circuit. The pool's lock guards it. The zero value is closed.
type circuit struct {
	since            time.Time // of the window
	requests, failed int       // in the window
	until            time.Time // when it is tried again; zero: it is closed
	probing          bool      // a request tries it
}

// open reports whether the member gets no request now.
func (c *circuit) open(now time.Time) bool {
	return !c.until.IsZero() && (c.probing || now.Before(c.until))
}

// enter notes that a request goes to the member, and reports whether it tries it.
func (c *circuit) enter(now time.Time) (probes bool) {
	c.probing = !c.until.IsZero()
	return c.probing
}

// broken reports whether the circuits of all members are open that were not tried. The caller holds
// the pool's lock.
func (g *Group) broken(tried []*peer, now time.Time) bool {
	for m := range g.untried(tried) {
		if !m.circuit.open(now) {
			return false
		}
	}
	return len(g.members) > 0
}

// judge counts the outcome of the slot that the lease gives back. What it returns, if anything, is to
// be called without the pool's lock, which the caller holds.
func (l *Lease) judge() (report func()) {
	g, m, s := l.group, l.at, l.group.Circuit
	if s == nil {
		return nil
	}
	c := &m.circuit
	if l.probes {
		l.probes, c.probing = false, false
		switch l.outcome {
		case worked:
			*c = circuit{}
			return func() { s.Changed(m.title(), false, 0, 0) }
		case failed:
			c.until = l.ended.Add(s.Open)
			g.refuse()
		}
		return nil
	}
	if l.outcome == unknown || !c.until.IsZero() { // it began before the circuit has opened
		return nil
	}
	if l.ended.Sub(c.since) > s.Window {
		*c = circuit{since: l.ended}
	}
	c.requests++
	if l.outcome == failed {
		c.failed++
	}
	if c.requests < s.Least || c.failed*100 < s.Percent*c.requests {
		return nil
	}
	c.until = l.ended.Add(s.Open)
	g.refuse()
	requests, failed := c.requests, c.failed
	return func() { s.Changed(m.title(), true, failed, requests) }
}

// refuse ends the wait of all requests for which all circuits are open.
func (g *Group) refuse() {
	var waiting []*ticket
	for e := range g.waiting.All() {
		waiting = append(waiting, e.Value)
	}
	now := time.Now()
	for _, tk := range waiting {
		if g.broken(tk.lease.tried, now) {
			tk.withdraw()
			tk.promise.Reject(errOpen)
		}
	}
}

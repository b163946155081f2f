package upstream

import (
	"errors"
	"time"

	"github.com/lwango/lwango/loop"
)

// Circuit says when an address gets no requests any more, even if the group has no other, because
// too large a share of its requests has failed. That relieves an overloaded application, and spares
// its clients a wait. After a while, one request at a time probes the address.
type Circuit struct {
	Percent int           // share of failed requests that opens the circuit
	Least   int           // requests in Window below which the circuit stays closed
	Window  time.Duration // in which they are counted
	Open    time.Duration // how long the circuit stays open

	// Changed is called when the circuit of an address opens and closes. It must not wait.
	Changed func(name string, open bool, failed, requests int)
}

var errOpen = errors.New("too many requests have failed there")

// outcome is the result of a slot for its server's circuit.
type outcome uint8

const (
	unknown outcome = iota // the client has left, or it was the first part of an attempt
	worked
	failed
)

// circuit is the state of a server's circuit. The pool's lock guards it. The zero value is closed.
type circuit struct {
	since            time.Time // of the window
	requests, failed int       // in the window
	until            time.Time // when it is probed; zero: it is closed
	probing          bool      // a request probes it
}

// open reports whether the server gets no request now.
func (c *circuit) open(now time.Time) bool {
	return !c.until.IsZero() && (c.probing || now.Before(c.until))
}

// enter notes that a request goes to the server, and reports whether the request probes it.
func (c *circuit) enter(now time.Time) (probes bool) {
	c.probing = !c.until.IsZero()
	return c.probing
}

// allCircuitsOpen reports whether all servers to which the request may go have open circuits. The
// caller holds the pool's lock.
func (l *Lease) allCircuitsOpen(now time.Duration) bool {
	for srv := range l.group.untried(l.tried) {
		if !srv.circuit.open(loop.At(now)) {
			return false
		}
	}
	// The sticky server may be drained, and not be among the group's servers.
	return len(l.group.servers) > 0 && l.stickyServer(now) == nil
}

// openCircuit keeps requests from the server for the time of Circuit.Open. Then it serves the
// waiting requests, which no other event may wake. The caller holds the pool's lock.
func (srv *server) openCircuit(s *Circuit, now time.Time) {
	srv.circuit.until = now.Add(s.Open)
	time.AfterFunc(s.Open, func() {
		srv.pool.mu.Lock()
		srv.serve(nil)
		srv.pool.mu.Unlock()
	})
}

// reportProbe counts the outcome of a slot that probes its address at once: the slot may be a
// tunnel's, and be kept for hours.
func (l *Lease) reportProbe() {
	if !l.probesCircuit {
		return
	}
	l.group.pool.mu.Lock()
	report := l.countOutcome(time.Now())
	l.server.serve(nil)
	l.group.pool.mu.Unlock()
	if report != nil {
		report()
	}
}

// countOutcome counts the outcome of the slot, once. The caller, which holds the pool's lock, calls
// the returned function, if not nil, without the lock.
func (l *Lease) countOutcome(now time.Time) (report func()) {
	g, srv, s := l.group, l.server, l.group.Circuit
	if s == nil || l.outcomeCounted {
		return nil
	}
	c := &srv.circuit
	if l.probesCircuit {
		l.probesCircuit, l.outcomeCounted, c.probing = false, true, false
		switch l.outcome {
		case worked:
			*c = circuit{}
			return func() { s.Changed(srv.title(), false, 0, 0) }
		case failed:
			srv.openCircuit(s, now)
			g.refuse()
		}
		return nil
	}
	if l.outcome == unknown || !c.until.IsZero() { // it began before the circuit was open
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
	srv.openCircuit(s, now)
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
		if w.lease.allCircuitsOpen(now) {
			w.withdraw()
			w.promise.Reject(errOpen)
		}
	}
}

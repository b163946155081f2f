package upstream

import (
	"crypto/tls"
	"sync"
	"time"
)

// Pool holds the addresses that routes name, for all loops, routes and configurations of a process
// together. A connection takes something on the other side, such as a process of PHP-FPM. More
// routes to an address, or a reload, do not make more of these. The zero value is ready for use.
type Pool struct {
	mu       sync.Mutex
	peers    map[endpoint]*peer   // never forgotten: a route from before a reload may still be answering
	verdicts map[checked]*verdict // of checks; never forgotten either
	timer    *time.Timer          // closes connections that are idle for too long; nil: none is idle
	next     time.Time            // when timer fires
}

// endpoint is where an upstream listens, and what it speaks.
type endpoint struct {
	network, address string
	secure           bool   // TLS
	id               string // of its Security: no route gets what another has not verified as it would
}

// peer is one address. The pool's lock guards what can change.
type peer struct {
	endpoint
	named bool        // the address has to be looked up
	tls   *tls.Config // nil: none
	pool  *Pool

	active  int    // connections in use, and those that are being made
	idle    []kept // the last one is the latest
	waiting queue
	health
	found found
}

// peer returns the peer at e, which is a new one with that configuration if no route has named it
// before.
func (p *Pool) peer(e endpoint, tls *tls.Config) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := p.peers[e]
	if it == nil {
		if p.peers == nil {
			p.peers = make(map[endpoint]*peer)
		}
		it = &peer{endpoint: e, named: e.named(), tls: tls, pool: p}
		p.peers[e] = it
	}
	return it
}

package upstream

import (
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/sysio"
)

// Pool holds the addresses that routes name, for all loops, routes and configurations of a process
// together. A connection takes something on the other side, such as a process of PHP-FPM, and there
// are no more of these where more routes lead there, or where the configuration is read anew. The
// zero value is ready.
type Pool struct {
	mu    sync.Mutex
	peers map[endpoint]*peer // never forgotten: a route from before a reload may still be answering
	timer *time.Timer        // closes connections that are idle for too long; nil: none is idle
	next  time.Time          // when it does
}

// endpoint is where an upstream listens.
type endpoint struct{ network, address string }

// peer is one address. The pool's lock guards what can change.
type peer struct {
	endpoint
	named bool // the address has to be looked up
	pool  *Pool

	active  int    // connections in use, and those that are being made
	idle    []idle // the last one is the latest
	waiting queue
	health
	found found
}

// idle is a connection that is kept. It is registered with no loop.
type idle struct {
	fd    int
	until time.Time
}

// peer returns the peer at e, which is a new one if no route has named it before.
func (p *Pool) peer(e endpoint) *peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	it := p.peers[e]
	if it == nil {
		if p.peers == nil {
			p.peers = make(map[endpoint]*peer)
		}
		it = &peer{endpoint: e, named: e.named(), pool: p}
		p.peers[e] = it
	}
	return it
}

// keep holds the connection fd for another request until then.
func (p *peer) keep(fd int, until time.Time) {
	p.idle = append(p.idle, idle{fd, until})
	switch pool := p.pool; {
	case pool.timer == nil:
		pool.timer = time.AfterFunc(time.Until(until), pool.closeIdle)
		pool.next = until
	case until.Before(pool.next):
		pool.timer.Reset(time.Until(until))
		pool.next = until
	}
}

// closeIdle closes the connections that no request has taken in time.
func (p *Pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer, p.next = nil, time.Time{}
	now := time.Now()
	for _, it := range p.peers {
		it.idle = slices.DeleteFunc(it.idle, func(i idle) bool {
			if i.until.After(now) {
				if p.next.IsZero() || i.until.Before(p.next) {
					p.next = i.until
				}
				return false
			}
			sysio.Close(i.fd)
			return true
		})
	}
	if !p.next.IsZero() {
		p.timer = time.AfterFunc(p.next.Sub(now), p.closeIdle)
	}
}

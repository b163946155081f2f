package fastcgi

import (
	"slices"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/sysio"
)

// pool is the addresses that routes name, for all loops, routes and configurations of a process together: what a
// connection takes is a process on the other side, of which there are as many as there are, however many routes lead
// there and however often ours are read anew. The module's registration owns it.
type pool struct {
	mu    sync.Mutex
	peers map[endpoint]*peer // never forgotten: a route from before a reload may still be answering
	timer *time.Timer        // closes what is idle for too long; nil: nothing is idle
	next  time.Time          // when it does
}

// endpoint is where an application listens.
type endpoint struct{ network, address string }

// peer is one address. What can change is guarded by the pool's lock.
type peer struct {
	endpoint
	named bool // it has to be looked up
	pool  *pool

	active  int       // connections in use, and those that are being made
	idle    []idle    // the last one is the latest
	waiting []*ticket // in the order of their coming
	health
	found found
}

// idle is a connection that is kept. No loop knows of it.
type idle struct {
	fd    int
	until time.Time
}

func (p *pool) peer(e endpoint) *peer {
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

// serve gives places to those who wait, in the order of their coming. Whoever has no room, as the limit of its route is
// lower than another's, holds up nobody: one long answer would have all routes wait where only one asked for that limit.
func (p *peer) serve() {
	for i := 0; i < len(p.waiting); {
		tk := p.waiting[i]
		if !tk.group.room(p) {
			i++
			continue
		}
		got, ok := tk.group.take(tk.tried, tk.fresh)
		if !ok {
			i++
			continue
		}
		tk.group.leave(tk)
		tk.promise.Resolve(got)
	}
}

// keep has fd wait for its next request until then.
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

// closeIdle closes connections that nobody takes. Each of them holds a process of PHP-FPM.
func (p *pool) closeIdle() {
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

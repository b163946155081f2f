package upstream

import (
	"crypto/tls"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Pool holds the addresses that routes name, for all loops, routes and configurations of a process
// together. A connection takes something on the other side, such as a process of PHP-FPM. More
// routes to an address, or a reload, do not make more of these. The zero value is ready for use.
type Pool struct {
	mu sync.Mutex
	// Those of a configuration are never forgotten: a route from before a reload may still be
	// answering. Those of a name are forgotten when it resolves to them no more.
	backends  map[backendKey]*backend
	verdicts  map[checked]*verdict // of checks
	dnsNames  map[string]*dnsName  // by name; never forgotten
	files     map[string]*files    // by the id of their Security; never forgotten
	states    states
	positions int           // of all waiters
	upSince   time.Time     // when an address has begun to work, the last one
	timer     *time.Timer   // closes idle connections that are of no use; nil: none is idle
	next      time.Duration // when timer fires, by loop.Now
}

// backendKey tells backends apart: where each listens, and what it speaks.
type backendKey struct {
	network, address string
	dns              string // the name that address was found for; "": the configuration has address
	secure           bool   // TLS
	http2            bool   // HTTP/2, whose connections are in loopSessions
	either           bool   // or HTTP/1.1, if it chooses that by ALPN
	id               string // of its Security: no route gets what another has not verified as it would
	source           netip.Addr
}

// backend is one address that requests go to, for the groups of all routes. The pool's lock guards
// what can change.
type backend struct {
	backendKey
	dnsName *dnsName    // that resolves to it; nil: the configuration has the address
	tls     *tls.Config // nil: none
	pool    *Pool

	active  int  // connections in use, and those that are being made
	peak    peak // of active
	spare   spareSlots
	idle    []*persistConn // for any request; the last one is the latest
	affine  []*persistConn // for those with the same affinity key; the last one is the latest
	removed bool           // dnsName resolves to it no more
	set     state          // what SetState has said last
	upSince time.Time      // when it has begun to work, if that was not at the start

	sessions    sync.Map     // *loop.Loop to *loopSessions, which are that loop's
	older       atomic.Bool  // the last connection by ALPN is one of HTTP/1.1
	closesEarly atomic.Int64 // see closedEarly

	waiting queue
	counted counted
	health
	wake *time.Timer // when it is to be used again; nil: it was never avoided

	unhealthy atomic.Bool // there may be something in health; read without the lock
}

// share returns s with the files that the backends of earlier ones with its id go by. So those of
// before a reload are renewed by the groups of after it.
func (p *Pool) share(s *Security) *Security {
	if s == nil || s.files == nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.files[s.id]
	if f == nil {
		if p.files == nil {
			p.files = make(map[string]*files)
		}
		p.files[s.id] = s.files
		return s
	}
	shared := *s
	shared.files = f
	return &shared
}

// backend returns the backend of the key, which is a new one if no route has named it before;
// config is for that. The caller holds the lock.
func (p *Pool) backend(key backendKey, d *dnsName, config func() (*tls.Config, error)) *backend {
	b := p.backends[key]
	if b == nil {
		if p.backends == nil {
			p.backends = make(map[backendKey]*backend)
		}
		b = &backend{backendKey: key, dnsName: d, pool: p}
		b.tls, _ = config()            // Group has tried it
		if d != nil && d.version > 1 { // the name has resolved to others until now
			b.cameUp()
		}
		p.backends[key] = b
	}
	return b
}

// remove notes that the backend's name resolves to it no more. Its connections end with their
// requests. The caller holds the pool's lock.
func (b *backend) remove() {
	b.removed = true
	b.closeIdleConns()
	b.retire()
	b.forget()
}

// forget drops a backend to which no name resolves any more, once no request uses it. What was
// counted there stays with its name. The caller holds the pool's lock.
func (b *backend) forget() {
	if !b.removed {
		return
	}
	b.dnsName.addCounted(b)
	if b.active > 0 || b.pool.backends[b.backendKey] != b {
		return
	}
	delete(b.pool.backends, b.backendKey)
	for key := range b.pool.verdicts {
		if key.backendKey == b.backendKey {
			delete(b.pool.verdicts, key)
		}
	}
}

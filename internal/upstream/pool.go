package upstream

import (
	"crypto/tls"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Pool has the addresses of all routes, for all loops, routes and configurations of a process
// together. A connection takes a resource of the upstream, such as a process of PHP-FPM; more
// routes to an address, or a reload, do not take more of these. The zero value is ready for use.
type Pool struct {
	mu sync.Mutex
	// Backends of a configuration are never removed: a route from before a reload may still be
	// answering. Backends of a name are removed when it no longer resolves to them.
	backends     map[backendKey]*backend
	checkResults map[checkKey]*checkResult // of checks
	dnsNames     map[string]*dnsName       // by name; never forgotten
	files        map[string]*files         // by the id of their Security; never forgotten
	states       states
	positions    int           // of all waiters
	upSince      time.Time     // when the last address began to work
	timer        *time.Timer   // closes idle connections that cannot be used; nil: none is idle
	next         time.Duration // when timer fires, by loop.Now
}

// backendKey distinguishes backends: by where each listens, and what it speaks.
type backendKey struct {
	network, address string
	dns              string // the name that resolves to address; "": the configuration has address
	secure           bool   // TLS
	http2            bool   // HTTP/2, whose connections are in loopSessions
	orHTTP1          bool   // or HTTP/1.1, if the server chooses that by ALPN
	id               string // of its Security: routes that verify in other ways share no connections
	source           netip.Addr
}

// backend is one address of upstreams, for the groups of all routes. The pool's lock guards the
// fields that change.
type backend struct {
	backendKey
	dnsName *dnsName    // that resolves to it; nil: the configuration has the address
	tls     *tls.Config // nil: none
	pool    *Pool

	active        int  // connections in use or being made
	peakActive    peak // of active
	spare         spareSlots
	idle          []*persistConn // for any request; the last one is the latest
	affine        []*persistConn // for those with the same affinity key; the last one is the latest
	removed       bool           // dnsName no longer resolves to it
	operatorState state          // by SetState
	upSince       time.Time      // when it began to work, if not at the start

	sessions    sync.Map     // *loop.Loop to *loopSessions, which are that loop's
	http1ByALPN atomic.Bool  // the last connection with ALPN chose HTTP/1.1
	closesEarly atomic.Int64 // see closedEarly

	waiting queue
	counted counted
	health
	wakeTimer *time.Timer // fires when it is to be used again; nil: it was never avoided

	unhealthy atomic.Bool // health may be set; read without the lock
}

// share returns s with the files of earlier ones with its id. So groups from after a reload renew
// the files of backends from before.
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

// backend returns the backend of the key. It makes a new one, with config, if no route has named it
// before. The caller holds the lock.
func (p *Pool) backend(key backendKey, d *dnsName, config func() (*tls.Config, error)) *backend {
	b := p.backends[key]
	if b == nil {
		if p.backends == nil {
			p.backends = make(map[backendKey]*backend)
		}
		b = &backend{backendKey: key, dnsName: d, pool: p}
		b.tls, _ = config()            // Group has checked it
		if d != nil && d.version > 1 { // the name resolved to other addresses before
			b.cameUp()
		}
		p.backends[key] = b
	}
	return b
}

// remove notes that the backend's name no longer resolves to it. Its connections end with their
// requests. The caller holds the pool's lock.
func (b *backend) remove() {
	b.removed = true
	b.closeIdleConns()
	b.retire()
	b.forget()
}

// forget drops a removed backend once no request uses it. Its counts stay with its name. The caller
// holds the pool's lock.
func (b *backend) forget() {
	if !b.removed {
		return
	}
	b.dnsName.addCounted(b)
	if b.active > 0 || b.pool.backends[b.backendKey] != b {
		return
	}
	delete(b.pool.backends, b.backendKey)
	for key := range b.pool.checkResults {
		if key.backendKey == b.backendKey {
			delete(b.pool.checkResults, key)
		}
	}
}

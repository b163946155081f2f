package upstream

import (
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/loop"
)

var (
	errQueueFull = errors.New("all connections are taken, and the queue is full")
	errNoSlot    = errors.New("no connection has become free in time")
	errNameless  = errors.New("a check has no name for TLS there: expected health = { host = ... }")
)

// Settings are a route's settings of its upstreams.
type Settings struct {
	// Addresses are "unix:/path" or "host:port", each perhaps followed by "weight=N" and "backup".
	// Paths of sockets may be relative to Dir.
	Addresses []string
	Dir       string

	// TLS is for addresses that begin with "https://". If it is nil, addresses with "https://",
	// "http://" or "h2c://" are invalid.
	TLS *Security

	// RawTCP says that the upstreams do not speak HTTP: "tls://" with a port replaces the schemes
	// above.
	RawTCP bool

	// HTTP2 selects HTTP/2: by ALPN for addresses with "https://", by prior knowledge for others. Then
	// a lease has a stream, see Lease.Mux, and MaxConns is for requests; of MaxIdle only 0 counts.
	// Addresses with "h2c://" always use HTTP/2.
	HTTP2 bool

	// HTTP1, with HTTP2, selects HTTP/1.1 for addresses with "https://" that do not offer HTTP/2.
	HTTP1 bool

	// Source is the local address of connections, see ParseSource; only addresses of its family are
	// used of a name. The zero Addr: the kernel chooses it.
	Source netip.Addr

	Balance Balance

	// Secret, if it is not nil, is the key for Lease.StickyID.
	Secret []byte

	// MaxConns limits the connections to each address, including idle ones and those of other routes.
	// 0: any number.
	MaxConns       int
	MaxQueue       int           // requests of the route that may wait for a connection, in turn
	QueueTimeout   time.Duration // for how long
	MaxIdle        int           // idle connections that stay, at each address; 0: none does
	IdleTimeout    time.Duration // for how long
	ConnectTimeout time.Duration // for a connection, with TLS, over all addresses that are tried

	// A connection of this age, or that has served as many requests, is not kept. 0 or less: no limit.
	KeepaliveTime     time.Duration
	KeepaliveRequests int

	// Newest selects the idle connection that was used last, so that the surplus of a burst is closed
	// after IdleTimeout. Otherwise a request gets the oldest one, see takeIdle.
	Newest bool

	// MaxFails is the number of failed requests in a row after which an address is avoided, if the
	// group has others. FailTimeout is how long it is avoided, also after a failed connect. 0: 3
	// requests, 10 seconds; MaxFails -1: never.
	MaxFails    int
	FailTimeout time.Duration

	// ConnectFails is how many connects to an address fail in a row before it is avoided. 0: one;
	// otherwise the max_fails of an address counts instead, if it has its own.
	ConnectFails int

	// SlowStart is the time in which the weight of an address grows from 0 to its full value, once it
	// works again or is new. Not with Hash. 0: at once.
	SlowStart time.Duration

	// Circuit, if it is not nil, keeps requests away from an address that fails too often.
	Circuit *Circuit

	// TryFor is how long, from its first Connect, a request that cannot connect to any address goes on
	// trying: an application may just be restarting. 0: not at all. See Lease.Resend, too.
	TryFor time.Duration

	// Check, if it is not nil, is the health check of Watch.
	Check *Check

	// ConnectFailed, if it is not nil, is called when a request could not connect to an upstream and
	// the route has others, or finds that targets of a service cannot be looked up. The call is on the
	// request's thread and must not wait.
	ConnectFailed func(name string, err error)
}

// Group has the upstreams of a route, with its limits. Its settings and configured servers do not
// change once it is built; the pool's lock guards the rest.
type Group struct {
	Settings
	pool       *Pool
	configured []*serverConfig
	hasNames   bool // some of configured are DNS names

	limited      bool  // MaxConns is set, or an address has its own
	filesVersion int64 // of the files of TLS when the group was made

	ownMaxConns map[*backend]int // of addresses with their own; nil: none has

	all      []*server           // of configured; another slice when they change
	servers  []*server           // of all, those that requests may go to
	version  int                 // of the pool's states, when servers was made
	waiting  fair.Queue[*waiter] // for a slot: the requests of the route
	sums     []int               // of the weights of servers, up to each; nil without Random
	classes  []class             // of servers, by level
	levels   int                 // the greatest level of all
	drawn    []*server           // for random; empty between two requests
	tlsNames map[string]bool     // values of Lease.ServerName for which TLS handshakes have succeeded
}

// server is an address in one route.
type server struct {
	*backend
	*serverConfig
	checkResult *checkResult // of the group's checks; nil: there are none

	current  int    // of smooth weighted round-robin; of Random the weight in a draw
	hash     uint64 // of its name or address, for Hash; the same in all processes
	stickyID uint64 // for Lease.StickyID; 0: the group has no Secret
	circuit  circuit

	weight, level int // of the serverConfig, or of a record of its service
}

// Group makes a group. An error names the wrong address, and what was expected.
func (p *Pool) Group(s Settings) (*Group, error) {
	g := &Group{Settings: s, pool: p, limited: s.MaxConns > 0}
	if s.TLS = p.share(s.TLS); s.TLS != nil && s.TLS.files != nil {
		g.TLS, g.filesVersion = s.TLS, s.TLS.files.version.Load()
	}
	for _, text := range s.Addresses {
		where, secure := text, false
		if s.RawTCP {
			where, secure = strings.CutPrefix(text, "tls://")
		}
		sc, err := parse(where, s.Dir, s.TLS != nil && !s.RawTCP, s.HTTP2)
		if err != nil {
			return nil, err
		}
		if secure {
			sc.key.secure, sc.name = true, "tls://"+sc.name
		}
		if sc.key.secure {
			sc.security, sc.key.id = s.TLS, s.TLS.id
			sc.key.orHTTP1 = s.HTTP1 && sc.key.http2
			if _, err = sc.config(); err != nil {
				return nil, fmt.Errorf("%s: %w", sc.name, err)
			}
			if sc.key.network == "unix" && s.Check != nil && s.Check.ServerName == "" &&
				s.TLS.needsServerName() {
				return nil, fmt.Errorf("%s: %w", sc.name, errNameless)
			}
		}
		if sc.key.network == "tcp" {
			sc.key.source = s.Source
		}
		for _, other := range g.configured {
			if other.key == sc.key {
				return nil, fmt.Errorf("%s: named twice", sc.name)
			}
		}
		g.configured = append(g.configured, sc)
		g.limited = g.limited || sc.maxConns > 0
	}
	if err := g.checkSource(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, sc := range g.configured {
		if sc.key.dns != "" {
			sc.dnsName, sc.dnsVersion, g.hasNames = p.dnsName(sc.key.dns), -1, true
		}
	}
	if g.hasNames {
		g.sync()
		return g, nil
	}
	for _, sc := range g.configured {
		g.all = append(g.all, g.newServer(sc, sc.key))
	}
	g.selectUsable()
	return g, nil
}

// config returns the tls.Config for the server, or nil without TLS.
func (sc *serverConfig) config() (*tls.Config, error) {
	if sc.security == nil {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(sc.key.address) // "" of a socket
	if domain := ServiceOf(sc.key.dns); domain != "" {
		host = domain // DNS must not decide which certificate is expected (RFC 6125)
	}
	c, err := sc.security.of(host)
	if err == nil && sc.key.http2 {
		c.NextProtos = []string{"h2"}
		if sc.key.orHTTP1 {
			c.NextProtos = append(c.NextProtos, "http/1.1")
		}
	}
	return c, err
}

// newServer makes the server of sc at a backend. The caller holds the pool's lock.
func (g *Group) newServer(sc *serverConfig, key backendKey) *server {
	srv := &server{backend: g.pool.backend(key, sc.dnsName, sc.config), serverConfig: sc,
		weight: sc.weight, level: sc.level}
	srv.hash = HashOf(sc.name)
	if sc.dnsName != nil {
		srv.hash = HashOf(key.address)
	}
	if g.Secret != nil {
		srv.stickyID = g.stickyID(srv)
	}
	srv.operatorState = g.pool.states.state(srv)
	if g.Check != nil {
		srv.checkResult = g.pool.checkResult(srv.backend, g.Check.ID)
	}
	return srv
}

// Primaries returns the number of addresses that are no backups.
func (g *Group) Primaries() (n int) {
	for _, sc := range g.configured {
		if sc.level == 0 {
			n++
		}
	}
	return n
}

// Secure reports whether one of the addresses speaks TLS.
func (g *Group) Secure() bool {
	return slices.ContainsFunc(g.configured, func(sc *serverConfig) bool { return sc.security != nil })
}

// untried yields the servers that a request has not tried. The caller holds the pool's lock, here
// and in the methods below. Only acquire and release take it themselves.
func (g *Group) untried(tried []*backend) iter.Seq[*server] {
	return func(yield func(*server) bool) {
		for _, srv := range g.servers {
			if !slices.Contains(tried, srv.backend) && !yield(srv) {
				return
			}
		}
	}
}

// acquire takes a slot at a server that was not tried, or returns a waiter, whose await waits for
// one.
func (l *Lease) acquire(t *loop.Thread, now time.Duration) (*waiter, error) {
	g := l.group
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	if (len(l.tried) > 0 || len(g.servers) == 0) && !g.hasUntried(l.tried) &&
		l.stickyServer(now) == nil {
		if len(g.servers) == 0 && len(g.all) > 0 {
			return nil, errDown
		}
		return nil, errNoServers // the other servers have gone meanwhile
	}
	if g.Circuit != nil && l.allCircuitsOpen(now) {
		return nil, errOpen
	}
	if !g.hasWaiters(l.tried) && l.take(now) {
		return nil, nil
	}
	if !g.limited { // nothing needs it then
		l.client = t.Layer().Client()
	}
	w := l.enter(now)
	var room [4]position // as serve takes a waiter out of all queues
	for _, p := range append(room[:0], w.positions...) {
		p.backend.serve(l.loop) // requests before it may wait for something else
	}
	if !w.own.Waits() {
		return nil, nil
	}
	for srv := range g.untried(l.tried) {
		l.extendSpare(srv.backend, w.since)
	}
	if g.waiting.Len() > g.MaxQueue {
		w.makeRoom()
	}
	return w, nil
}

// hasUntried reports whether there is a server that was not tried.
func (g *Group) hasUntried(tried []*backend) bool {
	for range g.untried(tried) {
		return true
	}
	return false
}

// hasWaiters reports whether an earlier request waits.
func (g *Group) hasWaiters(tried []*backend) bool {
	if g.pool.positions == 0 {
		return false
	}
	for srv := range g.untried(tried) {
		if len(srv.backend.waiting.kinds) > 0 {
			return true
		}
	}
	return false
}

// release gives the slot back, and with it, if pc is not nil, a connection that may be reused for
// as long as limit; 0: the upstream has named no limit.
func (l *Lease) release(pc *persistConn, limit, now time.Duration) {
	if l.mux != nil {
		now = loop.Now() // a connection of the same turn may be older
		l.mux.Close()
		l.mux = nil
	}
	g, srv := l.group, l.server
	g.pool.mu.Lock()
	srv.active--
	l.uncountSlot(srv.backend)
	l.ended = now
	l.count()
	var report func()
	if g.Circuit != nil {
		report = l.countOutcome(loop.At(now))
	}
	switch {
	case pc == nil:
	case g.MaxIdle == 0 || srv.removed || srv.madeBefore(pc.version) ||
		g.pool.states.state(srv) == down || !g.again(pc, limit, now) || budget.Last(pc.fd):
		pc.close() // before another request has its slot
	default:
		srv.putIdle(pc, g.MaxIdle)
	}
	srv.forget()
	if len(srv.waiting.kinds) > 0 {
		srv.serve(l.loop)
	}
	g.pool.mu.Unlock()
	l.server, l.conn = nil, nil
	if report != nil {
		report()
	}
}

// again reports whether a connection may serve another request, and sets until when it may wait for
// that.
func (g *Group) again(pc *persistConn, limit, now time.Duration) bool {
	pc.since, pc.until = now, after(now, g.IdleTimeout)
	if limit > 0 {
		pc.until = min(pc.until, after(now, limit))
	}
	if pc.header != "" {
		pc.until = min(pc.until, now+proxyHeaderIdle)
	}
	if g.KeepaliveTime > 0 {
		pc.until = min(pc.until, after(pc.born, g.KeepaliveTime))
	}
	return pc.until > now && (g.KeepaliveRequests <= 0 || pc.served < g.KeepaliveRequests)
}

// take takes a slot for the request, if there is one.
func (l *Lease) take(now time.Duration) bool {
	g, srv := l.group, l.choose()
	if srv == nil {
		return false
	}
	l.server, l.untriedServers = srv, len(g.servers)-1
	if len(l.tried) > 0 {
		l.untriedServers = -1
		for range g.untried(l.tried) {
			l.untriedServers++
		}
	}
	switch {
	case srv.idleCount() == 0:
	case l.want == Fresh:
		srv.takeIdle(l).close() // its process, perhaps the only one, can accept the new one
	case l.want == JustUsed:
		l.conn = srv.takeJustUsed(l, now)
	default:
		l.conn = srv.takeIdle(l)
	}
	for most := g.maxConns(srv.backend); l.conn == nil && srv.idleCount() > 0 && most > 0 &&
		srv.active+srv.idleCount() >= most; {
		srv.closeOldest() // it has the slot that the request wants
	}
	l.outcome, l.taken, l.answered, l.connecting, l.connected = unknown, now, false, 0, false
	l.tries++
	if g.Circuit != nil {
		l.probesCircuit, l.outcomeCounted = srv.circuit.enter(loop.At(now)), false
	}
	srv.active++
	l.countSlot(srv.backend, now)
	srv.peakActive.note(srv.active, now)
	srv.probed(g.failTimeout())
	return true
}

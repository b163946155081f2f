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

// Settings are what a route says of its upstreams.
type Settings struct {
	// Addresses are "unix:/path" or "host:port", each perhaps with "weight=N" and "backup" behind
	// it. Paths of sockets may be relative to Dir.
	Addresses []string
	Dir       string

	// TLS is for the addresses that begin with "https://". With nil that is no address, and neither
	// is one with "http://" or "h2c://".
	TLS *Security

	// Bytes says that no HTTP is spoken, so "tls://" with a port stands in the place of the schemes
	// above.
	Bytes bool

	// HTTP2 has the addresses asked by HTTP/2: those with "https://" by ALPN, the others by prior
	// knowledge. A lease there has a stream, see Lease.Mux, and MaxConns is for requests; of MaxIdle
	// only 0 counts. Addresses with "h2c://" are asked so in any case.
	HTTP2 bool

	// HTTP1, with HTTP2, has those with "https://" asked by HTTP/1.1 that do not offer HTTP/2.
	HTTP1 bool

	// Source is the address that connections come from, as ParseSource has it, and that addresses of
	// names are of the family of. The zero Addr: the kernel chooses it.
	Source netip.Addr

	Balance Balance

	// Secret, if it is not nil, makes the numbers for Lease.StickyID.
	Secret []byte

	// MaxConns limits the connections to each address, including those that are idle and those of
	// other routes. 0: any number.
	MaxConns       int
	MaxQueue       int           // requests of the route that may wait for a connection, in turn
	QueueTimeout   time.Duration // for how long
	MaxIdle        int           // idle connections that stay, at each address; 0: none does
	IdleTimeout    time.Duration // for how long
	ConnectTimeout time.Duration // for a connection, with TLS, and with as many addresses as are tried

	// A connection that is this old, or has served as many requests, is kept no more. 0 or less: no
	// limit.
	KeepaliveTime     time.Duration
	KeepaliveRequests int

	// Newest gives a request the idle connection that was used last, so that those a burst has left
	// are closed after IdleTimeout. Otherwise it gets the oldest, see takeIdle.
	Newest bool

	// MaxFails is after how many requests in a row that an address has failed it is passed over where
	// the group has others, and FailTimeout for how long, also if it could not be connected to. 0: 3
	// requests, 10 seconds; MaxFails -1: it never is.
	MaxFails    int
	FailTimeout time.Duration

	// SlowStart is the time in which the weight of an address grows from nothing to all of it, once it
	// works again or is new. Not with Hash. 0: it has all of it at once.
	SlowStart time.Duration

	// Circuit, if it is not nil, keeps requests away from an address that fails too often.
	Circuit *Circuit

	// TryFor is for how long, from its first Connect, a request that cannot connect to any address
	// goes on trying: an application that is started anew is there a moment later. 0: it does not. See
	// Lease.Resend, too.
	TryFor time.Duration

	// Check, if it is not nil, is how Watch finds out whether the addresses work.
	Check *Check

	// Unreached, if it is not nil, is called when a request could not connect to an upstream and
	// the route has others, or finds that targets of a service cannot be looked up. The call is on the
	// request's thread and must not wait.
	Unreached func(name string, err error)
}

// Group is the upstreams of a route, with its limits. Its settings and configured servers do not
// change once it is built; the pool's lock guards the rest.
type Group struct {
	Settings
	pool       *Pool
	configured []*serverConfig
	hasNames   bool // some of configured are DNS names

	filesVersion int64 // of the files of TLS when the group was made

	all     []*server           // of configured; another slice when they change
	servers []*server           // of all, those that requests may go to
	version int                 // of the pool's states, as servers has them
	waiting fair.Queue[*waiter] // for a slot: the requests of the route
	sums    []int               // of the weights of servers, up to each; nil without Random
	classes []class             // of servers, by level
	levels  int                 // the greatest level of all
	drawn   []*server           // what random draws from; it is empty between two requests
	names   map[string]bool     // of Lease.ServerName, those for which TLS was made
}

// server is an address as one route has it.
type server struct {
	*backend
	*serverConfig
	verdict *verdict // of the group's checks; nil: there are none

	current  int    // of smooth weighted round-robin; of Random the weight in a draw
	hash     uint64 // of its name or address, for Hash; the same in all processes
	stickyID uint64 // for Lease.StickyID; 0: the group has no Secret
	circuit  circuit

	weight, level int // of the serverConfig, or of a record of its service
}

// Group makes a group. An error says which of the addresses is wrong, and what was expected.
func (p *Pool) Group(s Settings) (*Group, error) {
	g := &Group{Settings: s, pool: p}
	if s.TLS = p.share(s.TLS); s.TLS != nil && s.TLS.files != nil {
		g.TLS, g.filesVersion = s.TLS, s.TLS.files.version.Load()
	}
	for _, text := range s.Addresses {
		where, secure := text, false
		if s.Bytes {
			where, secure = strings.CutPrefix(text, "tls://")
		}
		sc, err := parse(where, s.Dir, s.TLS != nil && !s.Bytes, s.HTTP2)
		if err != nil {
			return nil, err
		}
		if secure {
			sc.key.secure, sc.name = true, "tls://"+sc.name
		}
		if sc.key.secure {
			sc.security, sc.key.id = s.TLS, s.TLS.id
			sc.key.either = s.HTTP1 && sc.key.http2
			if _, err = sc.config(); err != nil {
				return nil, fmt.Errorf("%s: %w", sc.name, err)
			}
			if sc.key.network == "unix" && s.Check != nil && s.Check.ServerName == "" && s.TLS.nameless() {
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

// config returns how TLS is spoken to the server, nil if it is not.
func (sc *serverConfig) config() (*tls.Config, error) {
	if sc.security == nil {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(sc.key.address) // "" of a socket
	if domain := ServiceOf(sc.key.dns); domain != "" {
		host = domain // whose certificate a target has is not for the name service to say (RFC 6125)
	}
	c, err := sc.security.of(host)
	if err == nil && sc.key.http2 {
		c.NextProtos = []string{"h2"}
		if sc.key.either {
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
	srv.set = g.pool.states.state(srv)
	if g.Check != nil {
		srv.verdict = g.pool.verdict(srv.backend, g.Check.ID)
	}
	return srv
}

// Primaries returns how many of the addresses are no backups.
func (g *Group) Primaries() (n int) {
	for _, sc := range g.configured {
		if sc.level == 0 {
			n++
		}
	}
	return n
}

// Secure reports whether TLS is spoken at one of the addresses.
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

// acquire gets a slot at a server that was not tried, or a waiter with which await waits for one.
func (l *Lease) acquire(t *loop.Thread, now time.Duration) (*waiter, error) {
	g := l.group
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	if (len(l.tried) > 0 || len(g.servers) == 0) && !g.has(l.tried) && l.stickyServer(now) == nil {
		if len(g.servers) == 0 && len(g.all) > 0 {
			return nil, errDown
		}
		return nil, errNowhere // the others have left meanwhile
	}
	if g.Circuit != nil && l.broken(now) {
		return nil, errOpen
	}
	if !g.crowded(l.tried) && l.take(now) {
		return nil, nil
	}
	if g.MaxConns == 0 { // as a rule nobody asks for it then
		l.client = loop.ClientOf(t)
	}
	w := l.enter(now)
	var room [4]position // as serve takes a waiter out of all queues
	for _, p := range append(room[:0], w.positions...) {
		p.backend.serve(l.loop) // the requests in front may wait for something else
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

// has reports whether there is a server that was not tried.
func (g *Group) has(tried []*backend) bool {
	for range g.untried(tried) {
		return true
	}
	return false
}

// crowded reports whether an earlier request waits.
func (g *Group) crowded(tried []*backend) bool {
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

// release gives the slot back, and with it a connection that may be used again, if there is one,
// for as long as limit; 0: the upstream has not said for how long.
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
		report = l.judge(loop.At(now))
	}
	switch {
	case pc == nil:
	case g.MaxIdle == 0 || srv.removed || srv.outdated(pc.version) ||
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

// again reports whether a connection may serve another request, and until when it may wait for it.
func (g *Group) again(pc *persistConn, limit, now time.Duration) bool {
	pc.since, pc.until = now, after(now, g.IdleTimeout)
	if limit > 0 {
		pc.until = min(pc.until, after(now, limit))
	}
	if pc.header != "" {
		pc.until = min(pc.until, now+headedFor)
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
	l.server, l.others = srv, len(g.servers)-1
	if len(l.tried) > 0 {
		l.others = -1
		for range g.untried(l.tried) {
			l.others++
		}
	}
	switch {
	case srv.idleCount() == 0:
	case l.want == Fresh:
		srv.takeIdle(l).close() // its process can accept the new one, and there may be no other process
	case l.want == JustUsed:
		l.conn = srv.takeJustUsed(l, now)
	default:
		l.conn = srv.takeIdle(l)
	}
	for l.conn == nil && srv.idleCount() > 0 && g.MaxConns > 0 &&
		srv.active+srv.idleCount() >= g.MaxConns {
		srv.closeOldest() // it has the slot that the request wants
	}
	l.outcome, l.taken, l.answered, l.connecting, l.reached = unknown, now, false, 0, false
	l.tries++
	if g.Circuit != nil {
		l.probes, l.judged = srv.circuit.enter(loop.At(now)), false
	}
	srv.active++
	l.countSlot(srv.backend, now)
	srv.peak.note(srv.active, now)
	srv.probed(g.failTimeout())
	return true
}

package tcpproxy

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/upstream/tunnel"
	"github.com/lwango/lwango/internal/wire/proxyproto"
	"github.com/lwango/lwango/internal/wire/template"
	"github.com/lwango/lwango/loop"
)

// Service passes on the connections of one [[stream]]. It does not change once it is built; any
// loop may call its methods.
type Service struct {
	set      *Settings
	limits   tunnel.Limits
	log      *slog.Logger
	counters *listenerCounters

	trusted *networks.Set     // peers that send the PROXY protocol; nil: none
	allow   *networks.Set     // clients that may connect; nil: all
	deny    *networks.Set     // those that may not; nil: none
	routes  []*route          // all
	names   map[string]*route // by whole names, and by suffixes, such as ".example.org"
	other   *route            // nil: other names are refused
	byName  bool              // what a client asks for chooses its upstream

	logLimiters [numRefusals]logLimiter
}

// route is a [[stream.route]].
type route struct {
	*Route
	group *upstream.Group
	own   bool // no other route has made group
	hash  template.Text
	log   *slog.Logger // of what happens to its upstreams
}

// Build makes the Service of a table, whose endpoint was checked, and reports what is wrong to the
// file; then the Service may be nil. path makes paths absolute, and paths of sockets are relative
// to dir. share is how many connections the table may have by default.
func (h *Hub) Build(set *Settings, dir string, path func(string) string, share int,
	log *slog.Logger) *Service {
	s := &Service{set: set, names: map[string]*route{}, counters: h.countersOf(set.Address.String()),
		limits: tunnel.Limits{Idle: set.IdleTimeout, Total: set.MaxTime},
		log:    log.With("stream", set.Address.String())}
	set.MaxConnections = cmp.Or(set.MaxConnections, max(share, 1))
	if set.MaxConnectionsPerAddress == 0 {
		set.MaxConnectionsPerAddress = max(set.MaxConnections/4, min(8, set.MaxConnections))
	}
	switch {
	case set.ProxyProtocol && len(set.TrustedProxies) == 0:
		set.Table.Errorf("proxy_protocol", "needs trusted_proxies, since anyone else could name "+
			"any address as the client's")
	case !set.ProxyProtocol && set.Table.Has("trusted_proxies"):
		set.Table.Errorf("trusted_proxies", "needs proxy_protocol = true: a stream has no other way to "+
			"name its client")
	case set.ProxyProtocol:
		var err error
		if s.trusted, err = networks.Parse(set.TrustedProxies); err != nil {
			set.Table.Errorf("trusted_proxies", "%v", err)
		}
	}
	s.allow, s.deny = networksOf(set, "allow", set.Allow), networksOf(set, "deny", set.Deny)
	for _, allowed := range set.Allow {
		for _, denied := range set.Deny {
			if networks.Within(allowed, denied) {
				set.Table.Errorf("allow", "%s has no effect: deny has %s, and counts", allowed, denied)
			}
		}
	}
	if len(set.Routes) == 0 {
		set.Table.Errorf("route", "missing; expected a [[stream.route]] with the address of an upstream")
	}
	for i := range set.Routes {
		s.add(h, &set.Routes[i], dir, path)
	}
	s.byName = len(s.names) > 0 || slices.ContainsFunc(s.routes, func(r *route) bool {
		return slices.ContainsFunc(r.hash, func(p template.Piece) bool { return p.Name == "name" })
	})
	return s
}

// networksOf reads a key with a list of networks; nil: it is not there.
func networksOf(set *Settings, key string, list []string) *networks.Set {
	if list == nil {
		return nil
	}
	all, err := networks.Parse(list)
	switch {
	case err != nil:
		set.Table.Errorf(key, "%v", err)
	case len(list) == 0:
		set.Table.Errorf(key, "expected at least one network")
	}
	return all
}

// admits reports whether a client may connect.
func (s *Service) admits(client netip.Addr) bool {
	return (s.allow == nil || s.allow.Contains(client)) &&
		(s.deny == nil || !s.deny.Contains(client))
}

// add builds one route.
func (s *Service) add(h *Hub, set *Route, dir string, path func(string) string) {
	r := &route{Route: set, log: s.log}
	s.routes = append(s.routes, r)
	if len(set.SNI) == 0 {
		switch {
		case set.Table.Has("sni"):
			set.Table.Errorf("sni", "expected at least one name; leave it out for all others")
		case s.other != nil:
			set.Table.Errorf("", "another route has no sni, so this one is of no use")
		}
		s.other = r
	}
	for _, name := range set.SNI {
		key, err := nameKey(name)
		switch {
		case err != nil:
			set.Table.Errorf("sni", "%v", err)
		case s.names[key] != nil:
			set.Table.Errorf("sni", "%q: named twice", name)
		default:
			s.names[key] = r
		}
	}
	at := set.Table
	if set.Shared != nil {
		at, r.log = set.Shared.Table, set.Shared.Log
	}
	if err := r.readHash(); err != nil {
		at.Errorf("hash", "%v", err)
		return
	}
	if set.Shared != nil && set.Shared.Group != nil {
		r.group = set.Shared.Group
		return
	}
	if r.group = r.open(h, at, dir, path); r.group == nil {
		return
	}
	r.own = true
	if set.Shared != nil {
		set.Shared.Group = r.group
	}
}

// open makes the group of a route, whose keys stand in the table at. It returns nil if it has
// reported an error.
func (r *route) open(h *Hub, at settings.Table, dir string,
	path func(string) string) *upstream.Group {
	set := r.Route
	security, err := (*upstream.TLS)(&set.TLS).Load(path, false)
	if err != nil {
		at.Errorf("tls", "%v", err)
		return nil
	}
	health := set.Table.Sub("health")
	if !health.Has("interval") &&
		slices.ContainsFunc([]string{"timeout", "rises", "falls"}, health.Has) {
		set.Table.Errorf("health", `missing: interval, such as "5s"; without it there are no checks`)
		return nil
	}
	source, err := upstream.ParseSource(set.Source)
	if err != nil {
		at.Errorf("source", "%v", err)
		return nil
	}
	if set.MaxFails == 0 {
		at.Errorf("max_fails", "must be above 0, or -1, which is none")
		return nil
	}
	g, err := h.pool.Group(
		upstream.Settings{Addresses: set.Address, Dir: dir, TLS: security, RawTCP: true,
			Balance: balances[set.Balance], MaxConns: set.MaxConns, MaxQueue: set.MaxQueue,
			QueueTimeout: set.QueueTimeout, ConnectTimeout: set.ConnectTimeout, Check: r.check(),
			Source: source, MaxFails: min(set.MaxFails, 0), ConnectFails: set.MaxFails,
			FailTimeout: set.FailTimeout,
			ConnectFailed: func(name string, err error) {
				r.log.Warn("stream: upstream not reached", "upstream", name, "error", err)
			}})
	switch {
	case err != nil:
	case len(set.Address) == 0:
		err = fmt.Errorf(`missing: where the upstream listens, such as "127.0.0.1:5432"`)
	case g.Primaries() == 0:
		err = fmt.Errorf("every address is a backup")
	}
	if err != nil {
		at.Errorf("address", "%v", err)
		return nil
	}
	if set.TLS != (upstreams.TLS{}) && !g.Secure() {
		at.Errorf("tls", `no address begins with "tls://"`)
		return nil
	}
	return g
}

// readHash reads the keys balance and hash.
func (r *route) readHash() (err error) {
	known := []string{"address", "name"}
	switch text := r.Hash; {
	case r.Balance == "ip_hash" && text == "":
		text = "{address}"
		fallthrough
	case r.Balance == "hash":
		r.hash, err = template.Parse(text, known)
		if err == nil && r.hash.Literal() {
			err = fmt.Errorf("%q: expected a text with placeholders (known: %s)", text, template.List(known))
		}
		return err
	case text != "":
		return errors.New(`it has no effect without balance = "hash"`)
	}
	return nil
}

// keyOf returns the hash by which an upstream is chosen for a client; 0: there is none.
func (r *route) keyOf(client netip.Addr, name string) (h uint64) {
	for _, p := range r.hash {
		switch p.Name {
		case "address":
			b, _ := networks.Of(client).MarshalBinary()
			h = upstream.AppendHash(h, b)
		case "name":
			h = upstream.AppendHash(h, name)
		default:
			h = upstream.AppendHash(h, p.Text)
		}
	}
	return h
}

var balances = map[string]upstream.Balance{"round_robin": upstream.RoundRobin,
	"least_conn": upstream.LeastConn, "random": upstream.Random, "ip_hash": upstream.Hash,
	"hash": upstream.Hash}

// nameKey returns the key in Service.names for a name of the key sni.
func nameKey(name string) (string, error) {
	key := strings.ToLower(name)
	if below, ok := strings.CutPrefix(key, "*."); ok {
		key = "." + below
	}
	if strings.ContainsAny(key, "* /:\"\\") || strings.Trim(key, ".") == "" ||
		strings.HasSuffix(key, ".") || net.ParseIP(key) != nil {
		return "", fmt.Errorf("expected the name of a host, or *. and one, not %q", name)
	}
	return key, nil
}

// route returns the route of a name, or nil. A whole name comes before suffixes, and the longest
// suffix before others.
func (s *Service) route(name string) *route {
	name = strings.TrimSuffix(name, ".")
	if r := s.names[name]; r != nil {
		return r
	}
	for i := strings.IndexByte(name, '.'); i >= 0; {
		if r := s.names[name[i:]]; r != nil {
			return r
		}
		next := strings.IndexByte(name[i+1:], '.')
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return s.other
}

// check makes the checks of a route, nil if it has none.
func (r *route) check() *upstream.Check {
	h := &r.Health
	if h.Interval == 0 {
		return nil
	}
	return &upstream.Check{ID: fmt.Sprintf("stream %+v %s", *h, r.ProxyProtocol),
		Preface:  proxyproto.AppendLocal(nil, r.ProxyProtocol),
		Interval: h.Interval, Timeout: h.Timeout, Rises: h.Rises, Falls: h.Falls,
		Run: func(net.Conn, string) error { return nil }, // the connection could be made
		Changed: func(name string, out bool, err error) {
			if out {
				r.log.Warn("stream: upstream taken out", "upstream", name, "error", err)
			} else {
				r.log.Info("stream: upstream works again", "upstream", name)
			}
		},
	}
}

// Watch checks the upstreams until the end of ctx. Any goroutine except a loop's may call it.
func (s *Service) Watch(ctx context.Context) {
	var all sync.WaitGroup
	for _, r := range s.routes {
		if !r.own {
			continue
		}
		if r.group.Check != nil {
			all.Go(func() { r.group.Watch(ctx) })
		}
		if r.group.HasFiles() {
			all.Go(func() { r.group.WatchFiles(ctx, r.log) })
		}
	}
	all.Wait()
}

// Checks returns how many addresses are checked. Each may take a connection for that.
func (s *Service) Checks() (n int) {
	for _, r := range s.routes {
		if r.own && r.Health.Interval > 0 {
			n += len(r.Address)
		}
	}
	return n
}

// Upstreams calls f with the name and the upstreams of each route that has its own.
func (s *Service) Upstreams(f func(name string, u metrics.Upstreams)) {
	for _, r := range s.routes {
		if r.group != nil && r.Shared == nil {
			f(r.name(), r.group)
		}
	}
}

// Settings returns the table.
func (s *Service) Settings() *Settings { return s.set }

// Report returns the counts of the address since the start of the process.
func (s *Service) Report() metrics.Stream { return s.counters.report(s.set.Address.String()) }

// Listen accepts connections to the listening socket fd on l. It ends TLS by c; nil: it does not.
// The caller is on the loop, or the loop does not run yet. To stop accepting, close the returned
// Listener on the loop. On an error fd is still the caller's.
func (s *Service) Listen(l *loop.Loop, fd int, c *tls.Config) (*loop.Listener, error) {
	p := &port{service: s, loop: l, tls: c}
	return l.Accept(fd, p.accept)
}

// port is the listening socket of one loop.
type port struct {
	service *Service
	loop    *loop.Loop
	tls     *tls.Config // nil: TLS is not ended here
}

// connectsAtOnce reports whether an upstream is connected before the client has sent anything.
func (p *port) connectsAtOnce() bool {
	return p.tls == nil && p.service.trusted == nil && !p.service.byName
}

func (p *port) accept(fd int, remote netip.AddrPort) {
	s := p.service
	s.counters.accepted.Add(1)
	c := &connection{port: p, remote: remote}
	c.tunnel.Began = c.now()
	why := refusal(-1)
	switch {
	case p.loop.Layer().SpareInUse(): // the upstream takes another one
		why = noDescriptor
	case s.trusted != nil && !s.trusted.Contains(remote.Addr()):
		why = untrustedProxy
	case s.trusted == nil && !s.admits(remote.Addr()):
		why = denied
	case !s.counters.enter(s.set.MaxConnections):
		why = tooMany
	case s.trusted == nil && !c.count():
		s.counters.leave(remote.Addr(), false)
		why = tooManyOfClient
	}
	if why >= 0 {
		sysio.Close(fd)
		s.refuse(why, remote.Addr())
		return
	}
	if err := p.loop.Attach(&c.Thread, fd, c, s.set.HeaderTimeout); err != nil {
		s.log.Error("stream: connection not accepted", "error", err)
		sysio.Close(fd)
		s.counters.leave(c.remote.Addr(), c.counted)
		return
	}
	c.client.Own(&c.Thread, remote)
	if p.connectsAtOnce() || p.loop.Stopping() { // the stop has woken only earlier threads
		c.Thread.Layer().Wake()
	}
}

// refusal is why a connection is closed at once.
type refusal int

const (
	noDescriptor refusal = iota
	untrustedProxy
	denied
	tooMany
	tooManyOfClient
	numRefusals
)

var refusals = [numRefusals]string{
	noDescriptor:    "no descriptor is left for its upstream",
	untrustedProxy:  "its peer is none of trusted_proxies, and would have to send a PROXY header",
	denied:          "allow and deny do not admit its client",
	tooMany:         "there are max_connections",
	tooManyOfClient: "its client has max_connections_per_address",
}

// logLimiter limits lines of the log that clients can cause to one a minute.
type logLimiter struct {
	next  atomic.Int64 // the time of the next line, in nanoseconds since epoch
	since atomic.Int64 // connections since the last line
}

var epoch = time.Now()

// refuse counts a connection that was closed, and logs that at most once a minute.
func (s *Service) refuse(why refusal, client netip.Addr) {
	s.counters.refused.Add(1)
	n := &s.logLimiters[why]
	n.since.Add(1)
	now, next := int64(time.Since(epoch)), n.next.Load()
	if now >= next && n.next.CompareAndSwap(next, now+int64(time.Minute)) {
		s.log.Warn("stream: connections refused: "+refusals[why], "client", client,
			"refused", n.since.Swap(0))
	}
}

package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
)

// Check says how to check whether the addresses of a route work, without a request of a client.
//
// One goroutine off the loops checks an address for the whole process: a check for each loop would
// multiply the load, and a handler that blocks its loop must not make an upstream seem to be down.
// Groups whose checks have the same ID share the goroutine and its result, so a reload neither
// forgets the result nor checks at once.
type Check struct {
	// ID is the same for equal checks.
	ID string

	Port     int           // to connect to, if it is not 0 and the address is no UNIX socket
	Interval time.Duration // between two of them
	Timeout  time.Duration // for one, including the connection
	Rises    int           // how many have to pass in a row before an address is used again
	Falls    int           // how many have to fail in a row before it is not

	// Preface is sent first on a connection, before TLS: a header of the PROXY protocol.
	Preface []byte

	// ServerName is for TLS if the requests have names of their own (Lease.ServerName); "": the host
	// of the address.
	ServerName string

	// Run checks the named address on a new connection. It returns an error if the address does not
	// work. The connection has Timeout as its deadline and is closed afterwards.
	Run func(c net.Conn, name string) error

	// Changed is called when the state of an address has changed: out says that it is no longer used,
	// because of err.
	Changed func(name string, out bool, err error)
}

// checkResult is the result of the checks of an address. The pool's lock guards it.
type checkResult struct {
	turn chan struct{} // held by the goroutine that checks
	next time.Time     // of the next check; belongs to that goroutine
	out  bool
	row  int // how many checks in a row had the opposite result
}

// checkKey names the checks with one ID of one backend.
type checkKey struct {
	backendKey
	id string
}

// checkResult returns the result for a backend, of checks with that ID. The caller holds the lock.
func (p *Pool) checkResult(b *backend, id string) *checkResult {
	key := checkKey{b.backendKey, id}
	v := p.checkResults[key]
	if v == nil {
		if p.checkResults == nil {
			p.checkResults = make(map[checkKey]*checkResult)
		}
		v = &checkResult{turn: make(chan struct{}, 1)}
		p.checkResults[key] = v
	}
	return v
}

// title returns the server's name for the log, which differs for each address of a DNS name.
func (srv *server) title() string {
	if srv.backend.dnsName == nil {
		return srv.name
	}
	return srv.name + " (" + srv.address + ")"
}

// failsChecks reports whether the checks have taken the server out of use.
func (srv *server) failsChecks() bool { return srv.checkResult != nil && srv.checkResult.out }

// Watch checks the addresses until the end of ctx, and returns when all checks have ended. Any
// goroutine except a loop's may call it.
func (g *Group) Watch(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	if !g.hasNames {
		g.pool.mu.Lock()
		servers := g.all
		g.pool.mu.Unlock()
		for _, srv := range servers {
			all.Go(func() { srv.watch(ctx, g.Check) })
		}
		return
	}
	stops := make(map[*server]context.CancelFunc)
	defer func() {
		for _, stop := range stops {
			stop()
		}
	}()
	for {
		servers, pause := g.resolveDue(ctx)
		for srv, stop := range stops {
			if !slices.Contains(servers, srv) {
				stop()
				delete(stops, srv)
			}
		}
		for _, srv := range servers {
			if stops[srv] == nil {
				ctx, stop := context.WithCancel(ctx)
				stops[srv] = stop
				all.Go(func() { srv.watch(ctx, g.Check) })
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// resolveDue looks up the names that are due. It returns the servers, and the time until its next
// call. It waits for DNS servers until the end of ctx.
func (g *Group) resolveDue(ctx context.Context) (servers []*server, pause time.Duration) {
	var due []<-chan struct{}
	g.pool.mu.Lock()
	for _, sc := range g.configured {
		if d := sc.dnsName; d != nil && !d.until.After(time.Now()) {
			d.begin()
			due = append(due, d.ended)
		}
	}
	g.pool.mu.Unlock()
	for _, ended := range due {
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.sync()
	pause = defaultTTL // a request may resolve the name meanwhile
	for _, sc := range g.configured {
		if sc.dnsName != nil {
			pause = min(pause, time.Until(sc.dnsName.until))
		}
	}
	return g.all, max(pause, leastTTL)
}

// watch checks the server until the end of ctx. Of all goroutines with the same check, only one
// checks.
func (srv *server) watch(ctx context.Context, c *Check) {
	v := srv.checkResult
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return
	}
	timer := time.NewTimer(time.Until(v.next))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		err := srv.check(ctx, c)
		if ctx.Err() != nil {
			return
		}
		srv.noteCheck(c, err)
		// Spread the checks over time.
		pause := c.Interval - c.Interval/20 + rand.N(c.Interval/10+1)
		v.next = time.Now().Add(pause)
		timer.Reset(pause)
	}
}

// check checks the server once. It takes one descriptor at most.
func (srv *server) check(ctx context.Context, c *Check) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	at := srv.address
	if c.Port != 0 && srv.network == "tcp" {
		host, _, _ := net.SplitHostPort(at)
		at = net.JoinHostPort(host, strconv.Itoa(c.Port))
	}
	nc, err := srv.dialer().DialContext(ctx, srv.network, at)
	if err != nil {
		return err
	}
	defer nc.Close()
	by, _ := ctx.Deadline()
	_ = nc.SetDeadline(by)
	defer context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })()
	if len(c.Preface) > 0 {
		if _, err := nc.Write(c.Preface); err != nil {
			return err
		}
	}
	over := nc
	if srv.tls != nil {
		config, _ := srv.security.at(srv.tls)
		if c.ServerName != "" && srv.security.byRequest {
			config = config.Clone()
			config.ServerName = c.ServerName
		}
		over = tls.Client(nc, config)
		if err := over.(*tls.Conn).Handshake(); err != nil {
			return fmt.Errorf("tls handshake: %w", err)
		}
	}
	err = c.Run(over, srv.name)
	_ = over.Close() // sends close_notify on TLS; an upstream would log its absence
	return err
}

// noteCheck notes the result of a check. It ignores errors of this machine, such as a lack of
// descriptors or ports.
func (srv *server) noteCheck(c *Check, err error) {
	if err != nil && (sysio.Exhausted(err) || errors.Is(err, syscall.EADDRNOTAVAIL)) {
		return
	}
	v, enough := srv.checkResult, c.Rises
	srv.pool.mu.Lock()
	if !v.out {
		enough = c.Falls
	}
	if v.out == (err != nil) {
		v.row = 0
	} else {
		v.row++
	}
	changed := v.row >= enough
	if changed {
		v.out, v.row = !v.out, 0
		if !v.out {
			srv.cameUp()
			srv.health = health{} // the earlier state by requests
		}
		srv.serveAll()
	}
	out := v.out
	srv.pool.mu.Unlock()
	if changed {
		c.Changed(srv.title(), out, err)
	}
}

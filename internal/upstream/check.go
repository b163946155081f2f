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

// Check says how to find out whether the addresses of a route work, without a request of a client.
//
// Each address is asked by one goroutine off the loops, for the whole process. A loop of its own
// for each would ask as many times; and a handler that holds up its loop must not make an upstream
// seem to be down. Groups whose checks have the same ID share the goroutine and what it has found,
// so a reload neither forgets that nor asks at once.
type Check struct {
	// ID is the same for two checks that ask alike.
	ID string

	Port     int           // to connect to, if it is not 0 and the address is no socket's
	Interval time.Duration // between two of them
	Timeout  time.Duration // for one, the connection included
	Rises    int           // how many have to pass in a row before an address is used again
	Falls    int           // how many have to fail in a row before it is not

	// Before is what a connection begins with, ahead of TLS: a header of the PROXY protocol.
	Before []byte

	// ServerName is for TLS where the requests have names of their own (Lease.ServerName); "": the
	// host of the address.
	ServerName string

	// Ask asks on a new connection to the named address. It returns an error if the address does not
	// work. The connection has Timeout as its deadline and is closed afterwards.
	Ask func(c net.Conn, name string) error

	// Changed is called when an address has changed: out says that it is not used any more, because
	// of err.
	Changed func(name string, out bool, err error)
}

// verdict is what the checks of an address have found. The pool's lock guards it.
type verdict struct {
	turn chan struct{} // of the goroutine that asks
	next time.Time     // when it is to ask; of that goroutine
	out  bool
	row  int // how many in a row have found the opposite
}

// checked is a way to ask an address.
type checked struct {
	backendKey
	id string
}

// verdict returns that of a backend, for checks with that ID. The caller holds the lock.
func (p *Pool) verdict(b *backend, id string) *verdict {
	key := checked{b.backendKey, id}
	v := p.verdicts[key]
	if v == nil {
		if p.verdicts == nil {
			p.verdicts = make(map[checked]*verdict)
		}
		v = &verdict{turn: make(chan struct{}, 1)}
		p.verdicts[key] = v
	}
	return v
}

// title returns the name for a line of the log: of a name's addresses each has its own.
func (srv *server) title() string {
	if srv.backend.dnsName == nil {
		return srv.name
	}
	return srv.name + " (" + srv.address + ")"
}

// out reports whether the checks have taken the server out.
func (srv *server) out() bool { return srv.verdict != nil && srv.verdict.out }

// Watch checks the addresses until the end of ctx, and returns when all that has ended. Any
// goroutine may call it that is not a loop's.
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

// resolveDue looks the names up that are due, and returns the servers, and after how long it is to
// be called again. It waits for name services, until the end of ctx.
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
	pause = interval // requests may have found others meanwhile
	for _, sc := range g.configured {
		if sc.dnsName != nil {
			pause = min(pause, time.Until(sc.dnsName.until))
		}
	}
	return g.all, max(pause, leastTTL)
}

// watch checks the server until the end of ctx. Of all goroutines that would check the same, one
// does.
func (srv *server) watch(ctx context.Context, c *Check) {
	v := srv.verdict
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
		srv.learned(c, err)
		// Not all at the same time, for ever.
		pause := c.Interval - c.Interval/20 + rand.N(c.Interval/10+1)
		v.next = time.Now().Add(pause)
		timer.Reset(pause)
	}
}

// check asks the server once. It has one descriptor at most.
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
	if len(c.Before) > 0 {
		if _, err := nc.Write(c.Before); err != nil {
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
	err = c.Ask(over, srv.name)
	_ = over.Close() // sends close_notify on TLS; an upstream would log its absence
	return err
}

// learned notes the result of a check. That this machine has no descriptor or port left says
// nothing of the other one.
func (srv *server) learned(c *Check, err error) {
	if err != nil && (sysio.Exhausted(err) || errors.Is(err, syscall.EADDRNOTAVAIL)) {
		return
	}
	v, enough := srv.verdict, c.Rises
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
			srv.health = health{} // what requests have found out before
		}
		srv.serveAll()
	}
	out := v.out
	srv.pool.mu.Unlock()
	if changed {
		c.Changed(srv.title(), out, err)
	}
}

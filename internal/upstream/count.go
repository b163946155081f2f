package upstream

import (
	"math"
	"net"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/loop"
)

// after returns the time d after t, or the last possible time.
func after(t, d time.Duration) time.Duration {
	if t += d; t < 0 {
		return math.MaxInt64
	}
	return t
}

// now returns loop.Now as of the turn of the lease's loop, which is exact enough for the times of a
// request. A thread of that loop calls it. A lease that has never connected has no loop.
func (l *Lease) now() time.Duration {
	if l.loop == nil {
		return loop.Now()
	}
	return l.loop.Now()
}

// counted has the counts of an address, for all routes, since the address is known. The pool's lock
// guards it.
type counted struct {
	slots    int64 // that were given back: of requests, and of failed attempts
	failures metrics.Failures
	spent    time.Duration // until the answer began
	times    [metrics.TimeBounds + 1]int64
}

// count counts the slot that the lease gives back.
func (l *Lease) count() {
	c := &l.server.counted
	c.slots++
	if l.answered {
		d := l.firstByte - l.taken
		c.spent += d
		c.times[metrics.Bucket(d)]++
	}
	switch {
	case l.outcome != failed:
	case l.answered:
		c.failures.Status++
	case l.connected:
		c.failures.Silent++
	default:
		c.failures.Connect++
	}
}

// addCounted adds the counts of a backend to which the name no longer resolves to those of the
// name. The caller holds the pool's lock.
func (d *dnsName) addCounted(b *backend) {
	if d.counted == nil {
		d.counted = make(map[backendKey]counted)
	}
	key := b.backendKey.configured()
	sum, c := d.counted[key], &b.counted
	sum.slots += c.slots
	sum.failures.Connect += c.failures.Connect
	sum.failures.Silent += c.failures.Silent
	sum.failures.Status += c.failures.Status
	sum.spent += c.spent
	for i, n := range c.times {
		sum.times[i] += n
	}
	d.counted[key], b.counted = sum, counted{}
}

// configured returns the key of the serverConfig whose backend has the key k.
func (k backendKey) configured() backendKey {
	if ServiceOf(k.dns) != "" {
		k.address = k.dns
		return k
	}
	_, port, _ := net.SplitHostPort(k.address)
	k.address = net.JoinHostPort(k.dns, port)
	return k
}

// add adds the counts to a row.
func (c *counted) add(row *metrics.Upstream) {
	row.Requests += c.slots
	row.Failures.Connect += c.failures.Connect
	row.Failures.Silent += c.failures.Silent
	row.Failures.Status += c.failures.Status
	row.Spent += c.spent.Seconds()
	if row.Times == nil {
		row.Times = make([]int64, len(c.times))
	}
	for i, n := range c.times {
		row.Times[i] += n
	}
}

// Attempts returns values for the access log besides Timing: how many times an upstream was tried,
// the time for the last connection (0: a reused one), and the address that was tried last.
func (l *Lease) Attempts() (tries int, connect time.Duration, address string) {
	if l.last == nil {
		return 0, 0, ""
	}
	return l.tries, l.connecting, l.last.address
}

package upstream

import (
	"crypto/tls"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// persistConn is a persistent connection (RFC 9112 section 9.3), here between two requests. Only
// the loop that has used it last may touch stream. That loop keeps the record of the descriptor,
// and need not register it anew. The descriptor belongs to the pool: any loop takes it, and the
// pool closes it, without asking that loop, which may be busy or have ended. So a request never
// waits where a connection is idle, and no loop can hoard them. Whoever has the connection may
// touch the rest.
type persistConn struct {
	fd     int
	loop   *loop.Loop
	stream *stream.Conn // nil: it serves its first request
	tls    *tls.Conn    // over stream; nil: none

	born   time.Duration // when it was made, by loop.Now
	served int           // requests
	looks  int64         // of the loop, when it was given back

	mayHaveInput bool          // see Doubt
	since        time.Duration // it waits
	until        time.Duration // it may

	version int64 // of the files of its Security when it was made; see server.outdated
	affinityKey
}

// use makes it the stream of a request on l, nil if the connection has ended, or bytes have come
// that no request has asked for.
//
// A second answer to the last request, which the next client would get for its own, comes with the
// first one or soon behind it. The loop that keeps the connection sees it when it looks for
// events. If it has not done so since the connection was given back, the kernel is asked, which
// takes a system call. What comes between the look and the request, in the time of a turn, is left
// to the protocol as what comes behind the request is: nothing tells them apart. The connection may
// end at any moment, too; then the request finds no answer, and is sent again. For one that cannot
// be, again is false, and the kernel is always asked.
func (pc *persistConn) use(l *loop.Loop, again bool) *stream.Conn {
	if pc.loop == l {
		if (again && !pc.mayHaveInput && pc.looks < l.Layer().Polls() || sysio.Quiet(pc.fd)) &&
			pc.stream.Reuse() {
			return pc.stream
		}
		pc.close()
		return nil
	}
	pc.loop.Layer().DeregisterIdle(pc.fd)
	if sysio.Quiet(pc.fd) {
		if s, err := stream.New(l, pc.fd); err == nil {
			if pc.tls != nil {
				pc.tls.NetConn().(*loopConn).Conn = s
			}
			return s
		}
	}
	sendCloseNotify(pc.tls, pc.fd)
	sysio.Close(pc.fd)
	return nil
}

// close closes the connection. Any goroutine may call it.
func (pc *persistConn) close() {
	pc.loop.Layer().DeregisterIdle(pc.fd)
	sendCloseNotify(pc.tls, pc.fd)
	sysio.Close(pc.fd)
}

// peak is the greatest number of connections that were in use at once in the last minute, or half a
// minute at least. No more of them stay idle: where the oldest is taken first, those that a burst
// has left would never be idle for long enough to be closed.
type peak struct {
	now, before int           // in this half minute and in the one before
	until       time.Duration // the end of this one, by loop.Now
}

// peakFor is half of that minute.
const peakFor = 30 * time.Second

// note notes that n are in use.
func (p *peak) note(n int, now time.Duration) {
	if late := now - p.until; late >= 0 {
		p.before = 0
		if late < peakFor {
			p.before = p.now
		}
		p.now, p.until = 0, now+peakFor
	}
	p.now = max(p.now, n)
}

func (p *peak) most() int { return max(p.now, p.before) }

// sweepInterval is how often idle connections are checked. Those that the upstream has closed take
// descriptors of this process, and of the upstream if it has closed only its sending half.
const sweepInterval = time.Second

// budget tells by a descriptor's number that few are left; then no connection is kept. The number
// may be old, so that the next request dials needlessly and gets a lower one. But so nothing has to
// count the connections of all pools.
var budget = openfiles.Process

// putIdle keeps a connection for another request, and closes surplus ones beyond most. Connections
// with an affinity key wait for a request that may never come. So they do not count for the peak,
// and are closed before others.
func (b *backend) putIdle(pc *persistConn, most int) {
	list := b.idleList(pc.name != "" || pc.header != "")
	*list = append(*list, pc)
	for b.idleCount() > most || len(b.affine) > maxAffine &&
		b.active+len(b.affine) > b.peakActive.most() {
		b.closeOldest()
	}
	for len(b.idle) > 0 && b.active+len(b.idle) > b.peakActive.most() {
		b.idle[0].close()
		b.idle = slices.Delete(b.idle, 0, 1)
	}
	at := min(pc.until, pc.since+sweepInterval)
	switch pool := b.pool; {
	case pool.timer == nil:
		pool.timer = time.AfterFunc(at-loop.Now(), pool.closeIdle)
		pool.next = at
	case at < pool.next:
		pool.timer.Reset(at - loop.Now())
		pool.next = at
	}
}

// takeIdle takes the oldest or the newest idle connection for a request, preferably one of its
// loop, or returns nil. With Fresh, it may be one that the request could not use.
//
// The oldest is for upstreams that may still work after their last answer on a connection, like a
// script of PHP that has called fastcgi_finish_request; most likely they do on the latest one. But
// then all connections take turns, see peak.
func (b *backend) takeIdle(l *Lease) *persistConn {
	i, affine := -1, l.hasAffinity()
	if l.want == Fresh && len(*b.idleList(affine)) == 0 {
		affine = !affine
	}
	list := b.idleList(affine)
	all := *list
	for j := range all {
		if l.group.Newest {
			j = len(all) - 1 - j
		}
		if affine && l.want != Fresh && !l.fits(all[j]) {
			continue
		}
		if i < 0 {
			i = j
		}
		if all[j].loop == l.loop {
			i = j
			break
		}
	}
	if i < 0 {
		return nil
	}
	return removeConn(list, i)
}

// removeConn takes a connection off a list. As a rule it is the last one.
func removeConn(list *[]*persistConn, i int) *persistConn {
	all, last := *list, len(*list)-1
	pc := all[i]
	if i < last {
		copy(all[i:], all[i+1:])
	}
	all[last] = nil
	*list = all[:last]
	return pc
}

// justUsedFor is how long a connection counts as just used. Known upstreams close idle ones after
// two seconds at the earliest (gunicorn).
const justUsedFor = time.Second

// closesEarlyFor is how long at most an upstream counts as one that closes connections sooner than
// that: see stayedOpen.
const closesEarlyFor = time.Minute

// closedEarly notes that the upstream has closed an idle connection after d only. uWSGI's HTTP
// closes each one after its answer, without announcing it.
func (b *backend) closedEarly(d, now time.Duration) {
	if d < justUsedFor+sweepInterval/2 { // closeIdle may be that late
		b.closesEarly.Store(int64(now + closesEarlyFor))
	}
}

// stayedOpen notes that an idle connection has served another request after d: the upstream does
// not close all early.
func (b *backend) stayedOpen(d time.Duration) {
	if d < justUsedFor && b.closesEarly.Load() != 0 {
		b.closesEarly.Store(0)
	}
}

// takeJustUsed takes the idle connection that was used last, if that was just now, preferably one
// of the request's loop.
func (b *backend) takeJustUsed(l *Lease, now time.Duration) *persistConn {
	if int64(now) < b.closesEarly.Load() {
		return nil
	}
	best, affine := -1, l.hasAffinity()
	list := b.idleList(affine)
	all := *list
	for i := len(all) - 1; i >= 0 && now-all[i].since < justUsedFor; i-- {
		if affine && !l.fits(all[i]) {
			continue
		}
		if best < 0 {
			best = i
		}
		if all[i].loop == l.loop {
			best = i
			break
		}
	}
	if best < 0 {
		return nil
	}
	return removeConn(list, best)
}

// idleList returns the idle connections with an affinity key, or those without.
func (b *backend) idleList(affine bool) *[]*persistConn {
	if affine {
		return &b.affine
	}
	return &b.idle
}

// idleCount returns how many connections are idle.
func (b *backend) idleCount() int { return len(b.idle) + len(b.affine) }

// closeOldest closes the longest idle connection, of those with an affinity key if there are any.
func (b *backend) closeOldest() {
	list := b.idleList(len(b.affine) > 0)
	(*list)[0].close()
	*list = slices.Delete(*list, 0, 1)
}

// closeIdleConns closes all idle connections.
func (b *backend) closeIdleConns() {
	for _, pc := range append(b.idle, b.affine...) {
		pc.close()
	}
	b.idle, b.affine = nil, nil
}

// closeIdle closes the connections that no request has taken in time, and those that the upstream
// has closed.
func (p *Pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil { // putIdle may have set it anew while this call waited for the lock
		p.timer.Stop()
	}
	p.timer, p.next = nil, 0
	now := loop.Now()
	for _, b := range p.backends {
		for _, affine := range []bool{false, true} {
			list := b.idleList(affine)
			*list = slices.DeleteFunc(*list, func(pc *persistConn) bool {
				switch {
				case pc.until <= now:
					pc.close()
					return true
				case !sysio.Quiet(pc.fd):
					b.closedEarly(now-pc.since, now)
					pc.close()
					return true
				}
				if at := min(pc.until, now+sweepInterval); p.next == 0 || at < p.next {
					p.next = at
				}
				return false
			})
		}
	}
	if p.next != 0 {
		p.timer = time.AfterFunc(p.next-now, p.closeIdle)
	}
}

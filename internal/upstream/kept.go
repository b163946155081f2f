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

// kept is a connection between two requests. Only the loop that has used it last may touch
// stream. That loop keeps the record of the descriptor, and need not register it anew. The descriptor
// belongs to the pool: any loop takes it, and the pool closes it, without asking that loop, which may be busy
// or have ended. So a request never waits where a connection is idle, and no loop can hoard them.
// Whoever has the connection may touch the rest.
type kept struct {
	fd     int
	loop   *loop.Loop
	stream *stream.Conn // nil: it serves its first request
	tls    *tls.Conn    // over stream; nil: none

	born   time.Duration // when it was made, by loop.Now
	served int           // requests
	looks  int64         // of the loop, when it was given back

	doubtful bool          // see Doubt
	since    time.Duration // it waits
	until    time.Duration // it may

	version int64 // of the files of its Security when it was made; see server.outdated
	mark
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
func (k *kept) use(l *loop.Loop, again bool) *stream.Conn {
	if k.loop == l {
		if (again && !k.doubtful && k.looks < l.Looks() || sysio.Quiet(k.fd)) && k.stream.Reuse() {
			return k.stream
		}
		k.close()
		return nil
	}
	k.loop.Withdraw(k.fd)
	if sysio.Quiet(k.fd) {
		if s, err := stream.New(l, k.fd); err == nil {
			if k.tls != nil {
				k.tls.NetConn().(*carrier).Conn = s
			}
			return s
		}
	}
	sayGoodbye(k.tls, k.fd)
	sysio.Close(k.fd)
	return nil
}

// close closes the connection. Any goroutine may call it.
func (k *kept) close() {
	k.loop.Withdraw(k.fd)
	sayGoodbye(k.tls, k.fd)
	sysio.Close(k.fd)
}

// peak is the greatest number of connections that were in use at once in the last minute, or half a
// minute at least. No more of them are kept: where the oldest is taken first, those that a burst
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

// sweepEvery is how often kept connections are looked at. Those that the upstream has closed take
// descriptors of this process, and its own if it has closed only its sending side.
const sweepEvery = time.Second

// budget tells by a descriptor's number that few are left; then no connection is kept. The number
// may be old: then the next request dials in vain, and gets a lower one. But so nobody has to count
// what all pools keep.
var budget = openfiles.Process

// keep holds a connection for another request, and closes what is too much then, of most in all.
// Those with a mark wait for a request that may never come. They have no part in the peak, which is
// that of others, too, and give way to the rest.
func (b *backend) keep(k *kept, most int) {
	shelf := b.shelf(k.name != "" || k.header != "")
	*shelf = append(*shelf, k)
	for b.kept() > most || len(b.marked) > maxMarked && b.active+len(b.marked) > b.peak.most() {
		b.closeOldest()
	}
	for len(b.idle) > 0 && b.active+len(b.idle) > b.peak.most() {
		b.idle[0].close()
		b.idle = slices.Delete(b.idle, 0, 1)
	}
	at := min(k.until, k.since+sweepEvery)
	switch pool := b.pool; {
	case pool.timer == nil:
		pool.timer = time.AfterFunc(at-loop.Now(), pool.closeIdle)
		pool.next = at
	case at < pool.next:
		pool.timer.Reset(at - loop.Now())
		pool.next = at
	}
}

// idleFor takes a kept connection for a request, one of its loop if there is one, the oldest or the
// newest, or else none. With Fresh, it may be one that the request could not use.
//
// The oldest is for upstreams that may still be at work behind their last answer on a connection,
// as a script of PHP is that has called fastcgi_finish_request; most likely on the latest one. But
// then all connections take turns, see peak.
func (b *backend) idleFor(l *Lease) *kept {
	i, marked := -1, l.marked()
	if l.want == Fresh && len(*b.shelf(marked)) == 0 {
		marked = !marked
	}
	shelf := b.shelf(marked)
	all := *shelf
	for j := range all {
		if l.group.Newest {
			j = len(all) - 1 - j
		}
		if marked && l.want != Fresh && !l.fits(all[j]) {
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
	return takeKept(shelf, i)
}

// takeKept takes a connection off a shelf. As a rule it is the last one.
func takeKept(shelf *[]*kept, i int) *kept {
	all, last := *shelf, len(*shelf)-1
	k := all[i]
	if i < last {
		copy(all[i:], all[i+1:])
	}
	all[last] = nil
	*shelf = all[:last]
	return k
}

// justUsedFor is for how long a connection counts as just used. Upstreams close idle ones after two
// seconds at the earliest, among those in use (gunicorn).
const justUsedFor = time.Second

// hastyFor is for how long an upstream is taken for one that closes connections sooner than that,
// at most: see patient.
const hastyFor = time.Minute

// hurried notes that a kept connection has ended that had waited for d only. uWSGI's HTTP closes
// each one after its answer, without having said so.
func (b *backend) hurried(d, now time.Duration) {
	if d < justUsedFor+sweepEvery/2 { // closeIdle comes that late
		b.hasty.Store(int64(now + hastyFor))
	}
}

// patient notes that a kept connection that had waited for d has served another request: the
// upstream closes some early, but not all.
func (b *backend) patient(d time.Duration) {
	if d < justUsedFor && b.hasty.Load() != 0 {
		b.hasty.Store(0)
	}
}

// justUsed takes the kept connection that was used last, if that was just now. It prefers one of
// the request's loop, if there is one.
func (b *backend) justUsed(l *Lease, now time.Duration) *kept {
	if int64(now) < b.hasty.Load() {
		return nil
	}
	best, marked := -1, l.marked()
	shelf := b.shelf(marked)
	all := *shelf
	for i := len(all) - 1; i >= 0 && now-all[i].since < justUsedFor; i-- {
		if marked && !l.fits(all[i]) {
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
	return takeKept(shelf, best)
}

// shelf returns where connections are kept that have a mark, or have none.
func (b *backend) shelf(marked bool) *[]*kept {
	if marked {
		return &b.marked
	}
	return &b.idle
}

// kept returns how many connections are.
func (b *backend) kept() int { return len(b.idle) + len(b.marked) }

// closeOldest closes the connection that has waited for longest, of those with a mark if there are
// any.
func (b *backend) closeOldest() {
	shelf := b.shelf(len(b.marked) > 0)
	(*shelf)[0].close()
	*shelf = slices.Delete(*shelf, 0, 1)
}

// closeKept closes all kept connections.
func (b *backend) closeKept() {
	for _, k := range append(b.idle, b.marked...) {
		k.close()
	}
	b.idle, b.marked = nil, nil
}

// closeIdle closes the connections that no request has taken in time, and those that the upstream
// has closed.
func (p *Pool) closeIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil { // keep may have set it anew while this call waited for the lock
		p.timer.Stop()
	}
	p.timer, p.next = nil, 0
	now := loop.Now()
	for _, b := range p.backends {
		for _, marked := range []bool{false, true} {
			shelf := b.shelf(marked)
			*shelf = slices.DeleteFunc(*shelf, func(k *kept) bool {
				switch {
				case k.until <= now:
					k.close()
					return true
				case !sysio.Quiet(k.fd):
					b.hurried(now-k.since, now)
					k.close()
					return true
				}
				if at := min(k.until, now+sweepEvery); p.next == 0 || at < p.next {
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

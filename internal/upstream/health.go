package upstream

import (
	"cmp"
	"time"
)

// avoidTime is how long an address that does not work is avoided, if a route has others. It is a
// variable only for the tests.
var avoidTime = 10 * time.Second

// maxNoAnswers is how many connections in a row may bring no answer before that, if MaxFails is 0.
// A single one may be the request's fault.
const maxNoAnswers = 3

func (g *Group) failTimeout() time.Duration {
	if g.FailTimeout > 0 {
		return g.FailTimeout
	}
	return avoidTime
}

// health is the state of an address by earlier requests. The pool's lock guards it.
type health struct {
	noAnswers  int       // connections in a row that brought no answer
	avoidUntil time.Time // zero: not avoided
	reported   bool      // that it was not reached
}

func (h *health) works(now time.Time) bool { return !h.avoidUntil.After(now) }

// chosen is called for each request that gets a connection to the address. If the address did not
// work, this request finds out whether it works again; until then, others go elsewhere.
func (h *health) chosen(d time.Duration) {
	if !h.avoidUntil.IsZero() {
		h.avoidUntil = time.Now().Add(d)
	}
}

// probed calls chosen, and sets the timer that serves waiting requests when the time is over.
func (b *backend) probed(d time.Duration) {
	if b.chosen(d); !b.avoidUntil.IsZero() {
		b.setWakeTimer(d)
	}
}

// avoid makes requests avoid the address for a while. The caller holds the pool's lock.
func (b *backend) avoid(d time.Duration) {
	b.avoidUntil = time.Now().Add(d)
	b.setWakeTimer(d)
	b.serveAll()
}

// setWakeTimer sets a timer that gives slots to waiting requests when the address is to be used
// again: no other event may wake them. The caller holds the pool's lock.
func (b *backend) setWakeTimer(d time.Duration) {
	if b.wakeTimer != nil {
		b.wakeTimer.Reset(d)
		return
	}
	b.wakeTimer = time.AfterFunc(d, func() {
		b.pool.mu.Lock()
		b.serve(nil)
		b.pool.mu.Unlock()
	})
}

// noteConnectFailure notes that a request could not connect. It reports whether that is to be
// reported: some addresses of a name may never have worked, such as ::1 of localhost.
func (srv *server) noteConnectFailure(g *Group, blame bool) (news bool) {
	b, most := srv.backend, srv.mostConnects(g)
	b.pool.mu.Lock()
	defer b.pool.mu.Unlock()
	news = b.dnsName == nil || !b.reported
	b.reported = true
	if blame {
		if most > 1 {
			b.noAnswers++
		}
		if most <= 1 || b.noAnswers >= most {
			b.avoid(g.failTimeout())
		}
	}
	b.unhealthy.Store(true)
	return news
}

// mostConnects returns how many failed connects in a row are too many, where they are blamed.
func (srv *server) mostConnects(g *Group) int {
	if g.ConnectFails != 0 && srv.maxFails > 0 {
		return srv.maxFails
	}
	return g.ConnectFails
}

// most returns how many failures in a row are too many; negative: none are.
func (srv *server) most(g *Group) int { return cmp.Or(srv.maxFails, g.MaxFails, maxNoAnswers) }

// noteFailure notes that a connection has ended or timed out before the first byte of the answer.
// most is how many in a row are too many; negative: none are.
func (b *backend) noteFailure(g *Group, most int) {
	b.pool.mu.Lock()
	if b.noAnswers++; most > 0 && b.noAnswers >= most {
		b.avoid(g.failTimeout())
	}
	b.unhealthy.Store(true)
	b.pool.mu.Unlock()
}

// noteSuccess notes that an answer begins. A connection alone proves nothing: for a process that
// hangs, the kernel goes on accepting.
func (b *backend) noteSuccess() {
	if !b.unhealthy.Load() {
		return
	}
	b.pool.mu.Lock()
	if !b.avoidUntil.IsZero() {
		b.cameUp()
	}
	b.health = health{}
	b.unhealthy.Store(false)
	b.serve(nil)
	b.pool.mu.Unlock()
}

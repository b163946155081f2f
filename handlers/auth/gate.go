package auth

import (
	"bytes"
	"crypto/sha256"
	"net/netip"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/loop"
)

// gate is where credentials wait to be verified. A hash is made to take long, so clients that guess
// could keep all processors busy. The gate lets few computations run at a time, and the clients
// take turns. Those whose guesses were wrong a short time ago wait behind all others, so a user who
// logs in for the first time waits for few of them. Equal credentials that come at the same time,
// as a browser sends them, are verified once.
//
// It has goroutines of its own, not workers of a loop. A result is for requests on all loops, so it
// does not depend on the one that has asked first; and clients that guess take no worker away from
// handlers.
type gate struct {
	slots *fair.Slots

	mu      sync.Mutex
	flights map[[sha256.Size]byte]*flight
	wrong   recentFailures
}

// flight is a verification, and those who wait for it.
type flight struct {
	begun   loop.Promise[struct{}]
	result  loop.Promise[bool]
	slot    *fair.Slot
	waiting int // guarded by the gate's lock, as slot is
}

// gates is the process's only gate: all routes have the same processors.
var gates = newGate()

func newGate() *gate {
	return &gate{
		slots:   fair.NewSlots(fair.Processors),
		flights: make(map[[sha256.Size]byte]*flight),
	}
}

// Waiting returns how many passwords are being verified in this process, and how many wait for
// that. Any goroutine may call it.
func Waiting() (running, waiting int) { return gates.slots.Stats() }

// verify finds out whether h is the hash of the password. digest is that of the credentials. t is
// the request's thread; the error is that of its wait. The verification has to begin within limit.
// A client that leaves before that does not wait any more, though it may have ended no more than
// its sending half: those two look the same. If nobody waits for a verification that has not begun,
// it never runs.
func (g *gate) verify(t *loop.Thread, client netip.Addr, digest [sha256.Size]byte, h hash,
	password []byte, limit time.Duration,
) (right bool, err error) {
	f := g.join(client, digest, h, password)
	defer g.leave(digest, f) // also when the thread is killed
	waits := t.KeepWaiting(t.Layer().SeeGone())
	_, err = f.begun.Await(t, limit)
	t.KeepWaiting(waits)
	if err != nil {
		return false, err
	}
	return f.result.Await(t, maxWait)
}

func (g *gate) join(client netip.Addr, digest [sha256.Size]byte, h hash, password []byte) *flight {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.flights[digest]
	if f == nil {
		f = new(flight)
		g.flights[digest] = f
		own := bytes.Clone(password) // the request's bytes change when the next one comes
		clientNet := networks.ClientNet(client)
		f.slot = g.slots.Enter(client, g.wrong.has(clientNet, time.Now()), func() {
			f.begun.Resolve(struct{}{})
			go func() {
				right := h.matches(own)
				g.slots.Leave()
				g.mu.Lock()
				delete(g.flights, digest)
				if !right {
					g.wrong.add(clientNet, time.Now())
				}
				g.mu.Unlock()
				f.result.Resolve(right)
			}()
		})
	}
	f.waiting++
	return f
}

func (g *gate) leave(digest [sha256.Size]byte, f *flight) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f.waiting--; f.waiting == 0 && g.slots.Withdraw(f.slot) {
		delete(g.flights, digest)
	}
}

// recentFailures are client networks whose guesses were wrong: for a minute at least, and for two
// at most.
type recentFailures struct {
	recent, before map[netip.Addr]struct{}
	began          time.Time // of recent
}

// maxSuspects bounds each of the two tables.
const maxSuspects = 1 << 14

func (s *recentFailures) add(clientNet netip.Addr, now time.Time) {
	s.age(now)
	if len(s.recent) < maxSuspects {
		s.recent[clientNet] = struct{}{}
	}
}

func (s *recentFailures) has(clientNet netip.Addr, now time.Time) bool {
	s.age(now)
	_, recent := s.recent[clientNet]
	_, before := s.before[clientNet]
	return recent || before
}

func (s *recentFailures) age(now time.Time) {
	past := now.Sub(s.began)
	if past < time.Minute {
		return
	}
	s.before = s.recent
	if past >= 2*time.Minute {
		s.before = nil
	}
	s.recent, s.began = make(map[netip.Addr]struct{}), now
}

package conn

import (
	"net/netip"
	"sync"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/loop"
)

// evictor lets the connections of one network, an address of networks.Of, give way to its
// newcomers: the one that has been idle longest on the newcomer's loop, or else on another loop.
//
// The loops' lists of idle threads know nothing of networks, and the record of a connection has no
// room for another list. So an idleScan, which is a loop's, goes through all of the list and notes
// what it has found of the network. The next newcomers take what was noted. A loop scans no more
// than scansPerSecond threads in a second, and the notes are dropped then. So a newcomer costs
// little, as many as come, and networks that are not crowded cost nothing.
type evictor struct {
	of sync.Map // *loop.Loop to *idleScan

	// The lock of admission is held.
	evicting  map[netip.Addr]int64    // connections that other loops still have to close; 0: no entry
	exhausted map[netip.Addr]struct{} // networks of which no loop had an idle one in this second
	second    int64
}

const (
	scansPerSecond  = 1 << 17 // 2 ms
	maxEvictingEach = 4       // connections that other loops still have to close for one network
)

// idleScan is what a loop has noted in a second. It is used on the loop alone.
type idleScan struct {
	second int64
	left   int // threads that may still be scanned
	idle   map[netip.Addr][]loop.Idle
}

// makeRoom closes an idle connection of a network, or, with others, has another loop close one, and
// reports whether it has found one to close, or such a loop. It is called on the loop own.
func (e *evictor) makeRoom(a *admission, own *loop.Loop, network netip.Addr, others bool) bool {
	if e.evict(own, network) {
		a.evicted.Add(1)
		return true
	}
	if !others || len(*a.loops.Load()) < 2 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := own.Time().Unix(); now != e.second {
		e.second = now
		clear(e.exhausted)
	}
	if _, none := e.exhausted[network]; none || e.evicting[network] >= maxEvictingEach ||
		a.evicting.Load() >= maxEvicting {
		return false
	}
	if e.evicting == nil {
		e.evicting, e.exhausted = make(map[netip.Addr]int64), make(map[netip.Addr]struct{})
	}
	e.evicting[network]++
	a.evicting.Add(1)
	e.evictElsewhere(a, own, network, 0)
	return true
}

// evictElsewhere tries all loops in turn, from the i-th on, without own, until one has closed a
// connection of the network. If none has, there is one too many, and newcomers are refused until
// there are fewer.
func (e *evictor) evictElsewhere(a *admission, own *loop.Loop, network netip.Addr, i int) {
	for loops := *a.loops.Load(); i < len(loops); i++ {
		l := loops[i]
		if l == own {
			continue
		}
		err := l.Post(func() {
			found := e.evict(l, network)
			a.mu.Lock()
			defer a.mu.Unlock()
			if !found {
				e.evictElsewhere(a, own, network, i+1)
				return
			}
			a.evicted.Add(1)
			e.settled(a, network)
		})
		if err == nil {
			return
		}
	}
	e.exhausted[network] = struct{}{}
	e.settled(a, network)
}

// settled notes that another loop has closed a connection, or has found none.
func (e *evictor) settled(a *admission, network netip.Addr) {
	a.evicting.Add(-1)
	if e.evicting[network]--; e.evicting[network] == 0 {
		delete(e.evicting, network)
	}
}

// evict closes the connection of a network that has been idle longest on l, and reports whether
// there was one. It is called on l.
func (e *evictor) evict(l *loop.Loop, network netip.Addr) bool {
	all, _ := e.of.LoadOrStore(l, new(idleScan))
	c := all.(*idleScan)
	if now := l.Time().Unix(); now != c.second || c.idle == nil {
		*c = idleScan{second: now, left: scansPerSecond, idle: make(map[netip.Addr][]loop.Idle)}
	}
	kind := func(b loop.Task) bool {
		of, ok := b.(interface{ record() *connection })
		return ok && of.record().admission == counted &&
			networks.Of(of.record().remote.addrPort().Addr()) == network
	}
	for {
		for idle := c.idle[network]; len(idle) > 0; {
			first := idle[0]
			idle = idle[1:]
			c.idle[network] = idle
			if l.Layer().EndIdleThread(first, kind) {
				return true
			}
		}
		delete(c.idle, network)
		if c.left <= 0 {
			return false
		}
		found, scanned := l.Layer().IdleThreads(kind)
		c.left -= scanned + 1
		if len(found) == 0 {
			return false
		}
		c.idle[network] = found
	}
}

// record returns c itself, also for the bodies that are made of it.
func (c *connection) record() *connection { return c }

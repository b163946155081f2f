package conn

import (
	"net/netip"
	"sync"

	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/loop"
)

// crowds let the connections of one network, an address of networks.Of, give way to its newcomers: the
// one that has been idle longest on the newcomer's loop, or else on another loop.
//
// The loops' lists of idle threads know nothing of networks, and the record of a connection has no
// room for another list. So a crowd, which is a loop's, looks through all of the list and notes what it
// has found of the network. The next newcomers take what was noted. A loop looks at no more than
// looksPerSecond threads in a second, and the notes are dropped then. So a newcomer costs little, as
// many as come, and networks that are not crowded cost nothing.
type crowds struct {
	of sync.Map // *loop.Loop to *crowd

	// The lock of admission is held.
	owed   map[netip.Addr]int64    // connections that other loops still have to close; 0: no entry
	barren map[netip.Addr]struct{} // networks of which no loop had an idle one in this second
	second int64
}

const (
	looksPerSecond = 1 << 17 // 2 ms
	maxOwedEach    = 4       // connections that other loops still have to close for one network
)

// crowd is what a loop has noted in a second. It is used on the loop alone.
type crowd struct {
	second int64
	looks  int // that are left
	idle   map[netip.Addr][]loop.Idle
}

// makeRoom closes an idle connection of a network, or, with others, asks another loop to, and reports
// whether it has found one to close, or a loop to ask. It is called on the loop own.
func (cs *crowds) makeRoom(a *admission, own *loop.Loop, network netip.Addr, others bool) bool {
	if cs.giveUp(own, network) {
		a.gaveUp.Add(1)
		return true
	}
	if !others || len(*a.loops.Load()) < 2 {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := own.Time().Unix(); now != cs.second {
		cs.second = now
		clear(cs.barren)
	}
	if _, none := cs.barren[network]; none || cs.owed[network] >= maxOwedEach || a.owed.Load() >= maxOwed {
		return false
	}
	if cs.owed == nil {
		cs.owed, cs.barren = make(map[netip.Addr]int64), make(map[netip.Addr]struct{})
	}
	cs.owed[network]++
	a.owed.Add(1)
	cs.ask(a, own, network, 0)
	return true
}

// ask asks all loops in turn, from the i-th on, without own, until one has closed a connection of the
// network. If none has, there is one too many, and newcomers are refused until there are fewer.
func (cs *crowds) ask(a *admission, own *loop.Loop, network netip.Addr, i int) {
	for loops := *a.loops.Load(); i < len(loops); i++ {
		l := loops[i]
		if l == own {
			continue
		}
		err := l.Post(func() {
			found := cs.giveUp(l, network)
			a.mu.Lock()
			defer a.mu.Unlock()
			if !found {
				cs.ask(a, own, network, i+1)
				return
			}
			a.gaveUp.Add(1)
			cs.settle(a, network)
		})
		if err == nil {
			return
		}
	}
	cs.barren[network] = struct{}{}
	cs.settle(a, network)
}

// settle notes that a loop was asked, and has closed a connection, or none.
func (cs *crowds) settle(a *admission, network netip.Addr) {
	a.owed.Add(-1)
	if cs.owed[network]--; cs.owed[network] == 0 {
		delete(cs.owed, network)
	}
}

// giveUp closes the connection of a network that has been idle longest on l, and reports whether there
// was one. It is called on l.
func (cs *crowds) giveUp(l *loop.Loop, network netip.Addr) bool {
	all, _ := cs.of.LoadOrStore(l, new(crowd))
	c := all.(*crowd)
	if now := l.Time().Unix(); now != c.second || c.idle == nil {
		*c = crowd{second: now, looks: looksPerSecond, idle: make(map[netip.Addr][]loop.Idle)}
	}
	kind := func(b loop.Task) bool {
		of, ok := b.(interface{ record() *connection })
		return ok && of.record().standing == counted &&
			networks.Of(of.record().remote.addrPort().Addr()) == network
	}
	for {
		for idle := c.idle[network]; len(idle) > 0; {
			first := idle[0]
			idle = idle[1:]
			c.idle[network] = idle
			if l.GiveUpIdle(first, kind) {
				return true
			}
		}
		delete(c.idle, network)
		if c.looks <= 0 {
			return false
		}
		found, looked := l.IdleOf(kind)
		c.looks -= looked + 1
		if len(found) == 0 {
			return false
		}
		c.idle[network] = found
	}
}

// record returns c itself, also for the bodies that are made of it.
func (c *connection) record() *connection { return c }

package conn

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/lwango/lwango/loop"
)

// locals are the addresses of the machine that clients of one port have connected to. Most machines
// have a few, so the record of a connection needs one byte for its own. A function that a handler
// has left to a worker may ask, too; therefore the lock.
type locals struct {
	mu  sync.Mutex
	all []netip.AddrPort
}

// number returns the number of an address, from 1 on; 0 if there are too many addresses.
func (l *locals) number(a netip.AddrPort) uint8 {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.all, a)
	if i < 0 && len(l.all) < 255 {
		i = len(l.all)
		l.all = append(l.all, a)
	}
	return uint8(i + 1)
}

func (l *locals) of(number uint8) netip.AddrPort {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[number-1]
}

// localAddr returns the address that the client, or the proxy in front of it, has connected to. If
// the listener is bound to all addresses of the machine, the kernel is asked, once.
func (c *connection) localAddr() netip.AddrPort {
	p := c.port
	switch {
	case !p.wildcard:
		return p.local
	case c.localNumber > 0:
		return p.locals.of(c.localNumber)
	}
	a := loop.LocalAddr(c.FD())
	if a.IsValid() {
		c.localNumber = p.locals.number(a)
	}
	return a
}

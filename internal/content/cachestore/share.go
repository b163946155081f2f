package cachestore

import (
	"io"
	"net/netip"
	"sync"

	"github.com/lwango/lwango/internal/base/networks"
)

// shares are what clients hold of long bodies in memory: those that they are sent, and those that
// come for them. A client that does not read what it asks for would otherwise leave no room for
// those of others, as what is sent is not evicted. So where a quarter of the memory is held so, a
// network may hold an eighth of it, and a client network a quarter, or one body that is longer;
// what is beyond that is not sent from memory, or not kept. A client network has 65,536 networks,
// which may all be one client's. A body counts once for a network, however many of its clients get
// it. Clients without an address have no share of their own.
type shares struct {
	mu    sync.Mutex
	held  map[holding]int // users
	by    networks.Counts // bytes
	total int64           // of all
	free  *use
}

// holding is a body that a network is sent.
type holding struct {
	network netip.Addr // see networks.Of
	of      *long
}

// use is the use of a long body by a client. It is used again.
type use struct {
	of     *long
	client netip.Addr
	next   *use
}

// beyond reports whether n bytes more are too many for a client. The caller holds the lock.
func (h *shares) beyond(client netip.Addr, n, memory int64) bool {
	network, clientNet := h.by.Of(client)
	if h.total+n <= memory/4 {
		return false
	}
	return network > 0 && network+n > memory/8 || clientNet > 0 && clientNet+n > memory/4
}

func (h *shares) add(client netip.Addr, n int64) {
	h.by.Add(client, n)
	h.total += n
}

// hold notes that a client is sent a body, unless that is too much for it and may be refused.
func (s *Store) hold(l *long, client netip.Addr, refuse bool) bool {
	if !client.IsValid() {
		return true
	}
	h := &s.shares
	h.mu.Lock()
	defer h.mu.Unlock()
	at := holding{networks.Of(client), l}
	if h.held[at] == 0 {
		if refuse && h.beyond(client, l.size, s.options.Load().Memory) {
			return false
		}
		if h.held == nil {
			h.held = make(map[holding]int)
		}
		h.add(client, l.size)
	}
	h.held[at]++
	return true
}

// drop undoes hold.
func (s *Store) drop(l *long, client netip.Addr) {
	if !client.IsValid() {
		return
	}
	h := &s.shares
	h.mu.Lock()
	defer h.mu.Unlock()
	at := holding{networks.Of(client), l}
	if h.held[at]--; h.held[at] == 0 {
		delete(h.held, at)
		h.add(client, -l.size)
	}
}

// claim notes that n bytes more come for a client, unless that is too much for it.
func (s *Store) claim(client netip.Addr, n int64) bool {
	if !client.IsValid() {
		return true
	}
	h := &s.shares
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.beyond(client, n, s.options.Load().Memory) {
		return false
	}
	h.add(client, n)
	return true
}

// unclaim undoes claims of n bytes.
func (s *Store) unclaim(client netip.Addr, n int64) {
	if n == 0 || !client.IsValid() {
		return
	}
	h := &s.shares
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(client, -n)
}

// Use says that the body of an object in memory is being sent to a client, or a coded form of it,
// until the returned closer is closed, once. It is nil for a client that has its share of such
// bodies already, if refuse says so. The store need only know of what is Long.
func (o *Object) Use(client netip.Addr, refuse bool) io.Closer {
	l := o.x.long
	if !l.store.hold(l, client, refuse) {
		return nil
	}
	l.use()
	h := &l.store.shares
	h.mu.Lock()
	u := h.free
	if u == nil {
		u = new(use)
	} else {
		h.free = u.next
	}
	h.mu.Unlock()
	*u = use{of: l, client: client}
	return u
}

// Close implements io.Closer.
func (u *use) Close() error {
	l, client := u.of, u.client
	s := l.store
	s.drop(l, client)
	h := &s.shares
	h.mu.Lock()
	*u = use{next: h.free}
	h.free = u
	h.mu.Unlock()
	l.leaves()
	return nil
}

package conn

import (
	"net/netip"
	"sync"

	"github.com/lwango/lwango/internal/base/networks"
)

// bridges counts the goroutines of HTTP's handlers. A connection of HTTP/1.1 has one at a time, and
// so max_connections bounds them. A connection of HTTP/2 would have one for each stream. It has one
// without a condition, too. Those beyond it are max_connections in all at most, and of one client
// as many as are free: half of them if it is alone, a third each if there are two. So there are
// never more than twice max_connections, hijacked connections of HTTP/1.1 left aside.
//
// They count until their handlers return, which may be long after the streams. Any goroutine may
// call the methods.
type bridges struct {
	mu      sync.Mutex
	taken   int64           // beyond the first of each connection
	clients networks.Counts // what of taken is whose
	note    logLimiter
}

// takeBridge reports whether the request may have a goroutine for its handler. end is called, on
// any goroutine, when that has ended; nil: there is nothing to do.
func (r *Request) takeBridge() (end func(), ok bool) {
	st := r.x.via.multiplexed()
	if st == nil {
		return nil, true
	}
	return st.takeGoroutine()
}

// take counts a goroutine of the client, whose connection has *own of them, and reports whether the
// client may have it.
func (b *bridges) take(own *int, client netip.Addr, limit int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *own > 0 {
		free := limit - b.taken - 1
		network, clientNet := b.clients.Of(client) // none, for the clients of a proxy
		if limit > 0 && (free < 0 || client.IsValid() && (network+1 > free || (clientNet+1)/3 > free)) {
			return false
		}
		b.taken++
		b.clients.Add(client, 1)
	}
	*own++
	return true
}

// give undoes take.
func (b *bridges) give(own *int, client netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if *own--; *own > 0 {
		b.taken--
		b.clients.Add(client, -1)
	}
}

// beyond returns how many there are beyond the first of each connection.
func (b *bridges) beyond() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

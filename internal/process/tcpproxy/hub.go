package tcpproxy

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/networks"
	"github.com/lwango/lwango/internal/upstream"
)

// Hub has the parts that the streams of all configurations of a process share: the upstreams, and
// the counters of each address. So a reload neither forgets connections nor makes more of them. The
// zero value is ready. Any goroutine may call its methods.
type Hub struct {
	pool upstream.Pool

	mu       sync.Mutex
	counters map[string]*listenerCounters // by address; never forgotten
}

// countersOf returns the counters of an address.
func (h *Hub) countersOf(address string) *listenerCounters {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.counters[address]
	if l == nil {
		if h.counters == nil {
			h.counters = map[string]*listenerCounters{}
		}
		l = new(listenerCounters)
		h.counters[address] = l
	}
	return l
}

// Open returns the number of open connections; h may be nil.
func (h *Hub) Open() (n int) {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.counters {
		l.mu.Lock()
		n += l.open
		l.mu.Unlock()
	}
	return n
}

// listenerCounters has the counters of one address.
type listenerCounters struct {
	accepted, refused, failed atomic.Int64
	got, sent                 atomic.Int64 // bytes, of and to clients

	mu       sync.Mutex
	open     int
	byClient networks.Counts // connections by client
}

// enter counts a connection, and reports whether there is room for it.
func (l *listenerCounters) enter(most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= most {
		return false
	}
	l.open++
	return true
}

// clientNetShare is how many times max_connections_per_address the /64s of an IPv6 /48 may have
// together.
const clientNetShare = 16

// enterFrom counts a connection, which enter has counted, for its client, and reports whether the
// client may have it. most < 0: any number.
func (l *listenerCounters) enterFrom(client netip.Addr, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	network, clientNet := l.byClient.Of(client)
	if most >= 0 && client.IsValid() &&
		(network >= int64(most) || clientNet >= int64(clientNetShare*most)) {
		return false
	}
	l.byClient.Add(client, 1)
	return true
}

// leave undoes enter, and enterFrom if the client is counted.
func (l *listenerCounters) leave(client netip.Addr, counted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if counted {
		l.byClient.Add(client, -1)
	}
}

// report describes the counters of an address.
func (l *listenerCounters) report(address string) metrics.Stream {
	l.mu.Lock()
	open := l.open
	l.mu.Unlock()
	return metrics.Stream{Address: address, Open: int64(open), Accepted: l.accepted.Load(),
		Refused: l.refused.Load(), Failed: l.failed.Load(), Got: l.got.Load(), Sent: l.sent.Load()}
}

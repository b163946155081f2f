package conn

import (
	"math"
	"net/netip"

	"github.com/lwango/lwango/internal/base/openfiles"
)

// A connection of HTTP/1.1 serves one request at a time, and max_connections leaves two descriptors
// for that: a connection to an upstream, and a file. A connection of HTTP/2 serves many, so what
// its streams hold beyond these two counts for the client that it is of, and for the process: see
// openfiles. Otherwise the few connections that one address may have would take all descriptors.

// budget has the descriptors of all.
var budget = openfiles.Process

// included is how many descriptors of its streams a connection has room for.
const included = 2

func (st *h2stream) takeDescriptor() bool {
	s := st.s
	if st.descriptors == math.MaxUint16 ||
		s.descriptors >= included && !budget.Take(s.chargedClient(), 1) {
		s.server().refuse(refusedHolder)
		if s.server().descriptorNote.now(s.Loop()) {
			s.set.Logger.Warn("conn: a client of HTTP/2 gets 503, its requests hold too many descriptors",
				"client", s.chargedClient(), "of_this_connection", s.descriptors, "of_all_clients",
				budget.Taken(), "descriptor_limit", budget.Limit())
		}
		return false
	}
	s.descriptors++
	st.descriptors++
	return true
}

// giveDescriptors gives n of the stream's descriptors back, those that it still has at most.
func (st *h2stream) giveDescriptors(n int) {
	s := st.s
	n = min(n, int(st.descriptors))
	if beyond := min(s.descriptors-included, n); beyond > 0 {
		budget.Give(s.chargedClient(), beyond)
	}
	s.descriptors -= n
	st.descriptors -= uint16(n)
}

// descriptorGiver implements multiplexed. The holder of the descriptor may outlive the stream.
func (st *h2stream) descriptorGiver() func() {
	s, id := st.s, st.ID
	return func() {
		if st.s == s && st.ID == id {
			st.giveDescriptors(1)
		}
	}
}

// takeGoroutine implements multiplexed.
func (st *h2stream) takeGoroutine() (end func(), ok bool) {
	s, b, client := st.s, &st.server().bridges, st.s.chargedClient()
	limit := int64(s.set.MaxConnections)
	if !b.take(&s.bridges, client, limit) {
		s.server().refuse(refusedHolder)
		if b.note.now(s.Loop()) {
			s.set.Logger.Warn("conn: a client of HTTP/2 gets 503, "+
				"its requests have too many handlers of net/http", "client", client,
				"of_all_clients", b.beyond(), "max_connections", limit)
		}
		return nil, false
	}
	return func() { b.give(&s.bridges, client) }, true
}

// chargedClient is the client that the descriptors of the session count for. Zero stands for all
// clients of a proxy.
func (s *session) chargedClient() netip.Addr {
	if s.flags&ofProxy != 0 || !s.remote.valid() {
		return netip.Addr{}
	}
	return s.remote.addrPort().Addr()
}

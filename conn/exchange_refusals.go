package conn

import "sync/atomic"

// refusal is a way in which clients are turned away, or lose what they have.
type refusal int

const (
	refusedRoom     refusal = iota // at max_connections: 503, or closed
	refusedAddress                 // at max_connections_per_address
	refusedIdle                    // an idle connection was closed for a newcomer
	refusedStranger                // a peer that is not among trusted_proxies, see ProxyProtocol
	refusedHeader                  // its header of the PROXY protocol
	refusedSlow                    // too slow: body_timeout, write_timeout, min_rate
	refusedSpool                   // no room for a temporary file: 503
	refusedHolder                  // requests of HTTP/2 that hold too much: 503
	numRefusals
)

// refusalNames are for Server.Refusals.
var refusalNames = [numRefusals]string{"max_connections", "max_connections_per_address",
	"idle_closed", "untrusted_peer", "proxy_header", "slow", "spool", "http2_held"}

// refusalCounts counts them since the start. They are rare, and so all loops share the counters.
type refusalCounts [numRefusals]atomic.Int64

// refuse counts one.
func (s *Server) refuse(why refusal) { s.refusals[why].Add(1) }

// Refusals returns how many connections and requests were refused, or have ended early, since the
// start, by kind: each key has a limit's name, or another word.
func (s *Server) Refusals() map[string]int64 {
	all := make(map[string]int64, numRefusals)
	for i, name := range refusalNames {
		all[name] = s.refusals[i].Load()
	}
	// Since the last line in the log; see note.
	a := &s.admission
	all[refusalNames[refusedRoom]] += a.refused.Load()
	all[refusalNames[refusedAddress]] += a.ofNetwork.Load()
	all[refusalNames[refusedIdle]] += a.evicted.Load()
	return all
}

// said counts n of a kind that were counted elsewhere until now, and returns n.
func (s *Server) said(why refusal, n int64) int64 {
	s.refusals[why].Add(n)
	return n
}

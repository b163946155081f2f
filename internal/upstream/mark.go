package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"

	"github.com/lwango/lwango/loop"
)

// mark is whom a connection is for. Only requests with the same one use it.
type mark struct {
	name   string // that its TLS was made for; "": that of the group
	header string // of the PROXY protocol, which names a client; "": none was sent
}

// mark returns that of a new connection for the lease.
func (l *Lease) mark() mark { return mark{l.ServerName, string(l.Before)} }

// fits reports whether the lease's request may use a kept connection.
func (l *Lease) fits(k *kept) bool { return k.name == l.ServerName && k.header == string(l.Before) }

// maxMarked is for how many marks a loop has connections of HTTP/2 to a peer. A client may choose the
// name, and each connection of a client is a mark of its own; so those that were used least recently
// end with the requests that are under way.
const maxMarked = 64

// sessions returns the connections of HTTP/2 that the lease may use, of its thread's loop.
func (l *Lease) sessions() *loopSessions {
	p := l.at.peer
	root, ok := p.sessions.Load(l.loop)
	if !ok {
		root = new(loopSessions)
		p.sessions.Store(l.loop, root)
	}
	all := root.(*loopSessions)
	if l.ServerName == "" && len(l.Before) == 0 {
		return all
	}
	m := l.mark()
	i := slices.IndexFunc(all.marked, func(s *loopSessions) bool { return s.mark == m })
	set := &loopSessions{mark: m}
	if i >= 0 {
		set = all.marked[i]
		all.marked = slices.Delete(all.marked, i, i+1)
	}
	all.marked = append(all.marked, set) // the last is the latest
	if over := len(all.marked) - maxMarked; over > 0 {
		for _, old := range slices.Clone(all.marked[:over]) { // drop changes marked
			old.retire()
		}
	}
	return set
}

// retire has the connections end with the requests that are under way. A thread of the loop calls it.
func (set *loopSessions) retire() {
	for _, s := range slices.Clone(set.all) {
		s.Retire()
	}
}

// drop forgets the connections of a loop, if set has none.
func (p *peer) drop(l *loop.Loop, set *loopSessions) {
	if !set.empty() {
		return
	}
	root, _ := p.sessions.Load(l)
	all, _ := root.(*loopSessions)
	if all == nil {
		return
	}
	all.marked = slices.DeleteFunc(all.marked, func(s *loopSessions) bool { return s == set })
	if all.empty() && len(all.marked) == 0 {
		p.sessions.CompareAndDelete(l, root)
	}
}

func (set *loopSessions) empty() bool { return len(set.all) == 0 && set.dialing == nil }

// misnamed reports that TLS has failed with err because of the name that a request has chosen, as far
// as anyone can tell: that is no fault of the upstream.
func (l *Lease) misnamed(err error) bool {
	if l.ServerName == "" {
		return false
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err) // an alert, such as unrecognized_name
	return ok && op.Op == "remote error"
}

package upstream

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// affinityKey is whom a connection is for. Only requests with the same one use it.
type affinityKey struct {
	name   string // that its TLS was made for; "": that of the group
	header string // of the PROXY protocol, which names a client; "": none was sent
}

// affinityKey returns that of a new connection for the lease. The lease has a slot, here and below.
func (l *Lease) affinityKey() affinityKey { return affinityKey{l.serverName(), string(l.Before)} }

// hasAffinity reports whether the lease's connections have an affinity key.
func (l *Lease) hasAffinity() bool { return l.serverName() != "" || len(l.Before) > 0 }

// serverName is the name that TLS is made for; "": that of the group, or there is no TLS.
func (l *Lease) serverName() string {
	if l.server.backend.tls == nil {
		return ""
	}
	return l.ServerName
}

// fits reports whether the lease's request may use an idle connection.
func (l *Lease) fits(pc *persistConn) bool {
	return pc.name == l.serverName() && pc.header == string(l.Before) && !l.server.outdated(pc.version)
}

// maxAffine is for how many affinity keys a loop has connections of HTTP/2 to a backend. A client
// may choose the name, and each connection of a client is a key of its own; so those that were used
// least recently end with the requests that are under way. Of HTTP/1.1, a backend keeps that many
// connections with keys, or as many as were in use at once lately.
const maxAffine = 64

// headedFor is for how long a connection that began with a header may be idle. Nothing tells when
// its client has left, and nobody else can use it.
const headedFor = 5 * time.Second

// sessions returns the connections of HTTP/2 that the lease may use, of its thread's loop.
func (l *Lease) sessions() *loopSessions {
	b := l.server.backend
	root, ok := b.sessions.Load(l.loop)
	if !ok {
		root = new(loopSessions)
		b.sessions.Store(l.loop, root)
	}
	all := root.(*loopSessions)
	if !l.hasAffinity() {
		return all
	}
	key := l.affinityKey()
	i := slices.IndexFunc(all.affine, func(s *loopSessions) bool { return s.key == key })
	set := &loopSessions{key: key}
	if i >= 0 {
		set = all.affine[i]
		all.affine = slices.Delete(all.affine, i, i+1)
	}
	all.affine = append(all.affine, set) // the last is the latest
	if over := len(all.affine) - maxAffine; over > 0 {
		for _, old := range slices.Clone(all.affine[:over]) { // drop changes affine
			old.retire()
		}
	}
	return set
}

// retire has the connections end with the requests that are under way. A thread of the loop calls
// it.
func (set *loopSessions) retire() {
	for _, s := range slices.Clone(set.all) {
		s.Retire()
	}
}

// drop forgets the connections of a loop, if set has none.
func (b *backend) drop(l *loop.Loop, set *loopSessions) {
	if !set.empty() {
		return
	}
	root, _ := b.sessions.Load(l)
	all, _ := root.(*loopSessions)
	if all == nil {
		return
	}
	all.affine = slices.DeleteFunc(all.affine, func(s *loopSessions) bool { return s == set })
	if all.empty() && len(all.affine) == 0 {
		b.sessions.CompareAndDelete(l, root)
	}
}

func (set *loopSessions) empty() bool { return len(set.all) == 0 && set.dialing == nil }

// unshaken is the error of a handshake of TLS.
type unshaken struct{ error }

func (e unshaken) Unwrap() error { return e.error }

// fault is the reason why a request got no connection.
type fault uint8

const (
	theirs  fault = iota // the upstream
	unclear              // the upstream, or the name that the request has chosen for TLS
	named                // that name
)

// faultOf returns what is at fault where Connect has failed with err. A client must not be able to
// have upstreams passed over by names that they do not have, whether they say so or just close the
// connection. So only a name for which TLS was made before speaks against an upstream.
func (l *Lease) faultOf(err error) fault {
	if _, ok := errors.AsType[unshaken](err); !ok || l.serverName() == "" {
		return theirs
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if _, ok := errors.AsType[x509.HostnameError](bad.Err); ok {
			return named
		}
		return theirs
	}
	op, ok := errors.AsType[*net.OpError](err)
	alert := ok && op.Op == "remote error"
	switch known := l.group.knows(l.ServerName); {
	case alert && (!known || op.Err.Error() == "tls: unrecognized name"):
		return named
	case known:
		return theirs
	}
	return unclear
}

// maxNames is how many names a group knows.
const maxNames = 1024

// knows reports whether TLS was made for the name.
func (g *Group) knows(name string) bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.names[name]
}

// learn notes that TLS was made for the name. Of too many, any one is forgotten.
func (g *Group) learn(name string) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	switch {
	case g.names[name]:
		return
	case g.names == nil:
		g.names = make(map[string]bool)
	case len(g.names) >= maxNames:
		for other := range g.names {
			delete(g.names, other)
			break
		}
	}
	g.names[name] = true
}

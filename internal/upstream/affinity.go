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

// affinityKey says for which requests a connection is. Only requests with the same key use it.
type affinityKey struct {
	name   string // of the TLS handshake; "": that of the group
	header string // of the PROXY protocol, which names a client; "": none was sent
}

// affinityKey returns the key of a new connection for the lease. The lease has a slot, here and
// below.
func (l *Lease) affinityKey() affinityKey { return affinityKey{l.serverName(), string(l.Preface)} }

// hasAffinity reports whether the lease's connections have an affinity key.
func (l *Lease) hasAffinity() bool { return l.serverName() != "" || len(l.Preface) > 0 }

// serverName is the name of the TLS handshake; "": that of the group, or no TLS.
func (l *Lease) serverName() string {
	if l.server.backend.tls == nil {
		return ""
	}
	return l.ServerName
}

// fits reports whether the lease's request may use an idle connection.
func (l *Lease) fits(pc *persistConn) bool {
	return pc.name == l.serverName() && pc.header == string(l.Preface) &&
		!l.server.madeBefore(pc.version)
}

// maxAffine bounds the affinity keys for which a loop has connections of HTTP/2 to a backend. A
// client may choose the name, and each connection of a client has a key of its own; so the least
// recently used ones end with the requests that are under way. Of HTTP/1.1, a backend keeps as many
// connections with keys, or as many as were in use at once lately.
const maxAffine = 64

// proxyHeaderIdle is how long a connection that began with a PROXY header may be idle. No event
// tells when its client has left, and no other request can use it.
const proxyHeaderIdle = 5 * time.Second

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

// retire makes the connections end with the requests that are under way. A thread of the loop calls
// it.
func (set *loopSessions) retire() {
	for _, s := range slices.Clone(set.all) {
		s.Retire()
	}
}

// drop removes set from the loop's sets if it has no connections.
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

// handshakeError is the error of a TLS handshake.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// fault is the reason why a request got no connection.
type fault uint8

const (
	upstreamFault fault = iota // the upstream
	unclearFault               // the upstream's or the name's, which the request has chosen for TLS
	nameFault                  // that name
)

// faultOf returns what is at fault if Connect has failed with err. A client must not be able to
// take upstreams out of use by names that they do not have, whether they send an alert or just
// close the connection. So a failure counts against an upstream only if TLS succeeded for the name
// before.
func (l *Lease) faultOf(err error) fault {
	if _, ok := errors.AsType[handshakeError](err); !ok || l.serverName() == "" {
		return upstreamFault
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if _, ok := errors.AsType[x509.HostnameError](bad.Err); ok {
			return nameFault
		}
		return upstreamFault
	}
	op, ok := errors.AsType[*net.OpError](err)
	alert := ok && op.Op == "remote error"
	switch known := l.group.knowsTLSName(l.ServerName); {
	case alert && (!known || op.Err.Error() == "tls: unrecognized name"):
		return nameFault
	case known:
		return upstreamFault
	}
	return unclearFault
}

// maxTLSNames bounds the names that a group remembers.
const maxTLSNames = 1024

// knowsTLSName reports whether a TLS handshake for the name has succeeded.
func (g *Group) knowsTLSName(name string) bool {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	return g.tlsNames[name]
}

// addTLSName notes that a TLS handshake for the name has succeeded. If there are too many names, it
// drops any one.
func (g *Group) addTLSName(name string) {
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	switch {
	case g.tlsNames[name]:
		return
	case g.tlsNames == nil:
		g.tlsNames = make(map[string]bool)
	case len(g.tlsNames) >= maxTLSNames:
		for other := range g.tlsNames {
			delete(g.tlsNames, other)
			break
		}
	}
	g.tlsNames[name] = true
}

package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// stickyID returns the number by which a client names the server to which it comes back. Without
// the group's secret it reveals nothing of the address. It is never 0.
func (g *Group) stickyID(srv *server) uint64 {
	mac := hmac.New(sha256.New, g.Secret)
	_ = binary.Write(mac, binary.BigEndian, srv.hash)
	return binary.BigEndian.Uint64(mac.Sum(nil)) | 1
}

// stickyServer returns the server to which the request has to go, nil if it may go to any. If that
// server does not work, or is gone, the request goes elsewhere.
func (l *Lease) stickyServer(now time.Duration) *server {
	if l.StickyID == 0 {
		return nil
	}
	g, when := l.group, loop.At(now)
	for _, srv := range g.all {
		if srv.stickyID == l.StickyID && srv.works(when) && !srv.failsChecks() &&
			!srv.circuit.open(when) &&
			g.pool.states.state(srv) != down && !slices.Contains(l.tried, srv.backend) {
			return srv
		}
	}
	return nil
}

// LastStickyID returns the number of the upstream of the last slot, for a later StickyID; 0: the
// group has no Secret. The lease must have had a slot.
func (l *Lease) LastStickyID() uint64 { return l.last.stickyID }

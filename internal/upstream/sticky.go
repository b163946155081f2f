package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// idOf returns the number by which a client names a server that it wants to come back to. Without
// the group's secret it says nothing of the address. It is never 0.
func (g *Group) idOf(srv *server) uint64 {
	mac := hmac.New(sha256.New, g.Secret)
	_ = binary.Write(mac, binary.BigEndian, srv.hash)
	return binary.BigEndian.Uint64(mac.Sum(nil)) | 1
}

// home returns the server that the request has to go to, nil if it may go to any. Where its home
// does not work, or is there no more, the request goes elsewhere.
func (l *Lease) home(now time.Duration) *server {
	if l.Home == 0 {
		return nil
	}
	g, when := l.group, loop.At(now)
	for _, srv := range g.all {
		if srv.id == l.Home && srv.works(when) && !srv.out() && !srv.circuit.open(when) &&
			g.pool.states.state(srv) != down && !slices.Contains(l.tried, srv.backend) {
			return srv
		}
	}
	return nil
}

// At returns the number of the upstream that has had the last slot, for a later Home; 0: the group
// has no Secret. There must have been a slot.
func (l *Lease) At() uint64 { return l.last.id }

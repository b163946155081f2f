package upstream

import (
	"net/netip"
	"time"
)

// spareFrom is from how many places of an address on the last one is spare. Of fewer it would be too
// large a part, and of one it would be all.
const spareFrom = 4

// sharedFor is for how long the places count as shared after one site alone has them. It is a
// variable only for the tests.
var sharedFor = 10 * time.Second

// holders are the sites, as in fair.Queue, that have places at an address. The pool's lock guards
// them.
//
// A place that becomes free is first for the sites that have none. While more than one site has
// places, or had lately, the last place that is free is for such a site only: otherwise a newcomer
// waits until the crowd of another client gives a place back, and if its requests began together,
// they end together, all of their time later. A site that is alone gets all places, so an only
// client, such as a proxy in front, loses nothing.
type holders struct {
	places map[netip.Addr]int // of each site that has any
	until  time.Time          // when one site alone has had them for long enough
	timer  *time.Timer        // gives the last place to requests that wait; nil: they never had to
}

// enter notes that a site has one more place.
func (h *holders) enter(site netip.Addr) {
	if h.places == nil {
		h.places = make(map[netip.Addr]int)
	}
	h.places[site]++
}

// leave notes that a site has given one back.
func (h *holders) leave(site netip.Addr) {
	if h.places[site]--; h.places[site] > 0 {
		return
	}
	delete(h.places, site)
	if len(h.places) == 1 {
		h.until = time.Now().Add(sharedFor)
	}
}

// hasNone reports whether a site has no place.
func (p *peer) hasNone(site netip.Addr) bool { return p.holders.places[site] == 0 }

// shared reports whether the last place is spare.
func (h *holders) shared() bool { return len(h.places) > 1 || time.Now().Before(h.until) }

// room reports whether a request of the route may have another connection to p, whichever routes
// have the others.
func (g *Group) room(p *peer) bool { return g.MaxConns == 0 || p.active < g.MaxConns }

// roomFor is room for a request of a site.
func (g *Group) roomFor(p *peer, site netip.Addr) bool {
	return g.room(p) && (p.active != g.MaxConns-1 || g.MaxConns < spareFrom ||
		p.hasNone(site) || !p.holders.shared())
}

// hasRoom reports whether a route whose requests wait may have another connection.
func (p *peer) hasRoom() bool {
	for g := range p.waiting.groups {
		if g.room(p) {
			return true
		}
	}
	return false
}

// hasRoomFor is hasRoom for the requests of a site.
func (p *peer) hasRoomFor(site netip.Addr) bool {
	for g := range p.waiting.groups {
		if g.roomFor(p, site) {
			return true
		}
	}
	return false
}

// spareEnds has the requests that wait served when the last place is spare no more: no other event
// may tell them.
func (p *peer) spareEnds() {
	h := &p.holders
	rest := time.Until(h.until)
	switch {
	case rest <= 0 || len(h.places) > 1 || p.waiting.tickets.Len() == 0:
	case h.timer == nil:
		h.timer = time.AfterFunc(rest, func() {
			p.pool.mu.Lock()
			p.serve()
			p.pool.mu.Unlock()
		})
	default:
		h.timer.Reset(rest)
	}
}

package limit

import (
	"hash/maphash"
	"net/netip"

	"github.com/lwango/lwango/internal/base/networks"
)

// What a source may bring that is new, in the time in which a burst is paid off. Beyond it, the
// rest counts as the source itself, so that nobody fills a table for all others.
const (
	newNetworks = 64   // /64 networks of one /48
	newKeys     = 1024 // values of the header field from one address, or /48
)

// clients counts the requests of clients, each kind in a table of its own: IPv4 addresses, which
// cost a client most, are not pushed out by IPv6 networks, nor addresses by header fields.
type clients struct {
	seed     maphash.Seed
	v4       *zone
	networks bySource // the /64s of a /48
	keys     bySource // the values of an address; nil zones: addresses count alone
}

// bySource are the clients of many sources.
type bySource struct {
	members *zone
	sources *zone // counts what each source brings that is new
}

func newBySource(r Rate, burst, fresh int) bySource {
	members := newZone(r, burst)
	each := max(members.burst/int64(fresh), 1)
	return bySource{members, makeZone(each, each*int64(fresh))}
}

func newClients(r Rate, burst int, byField bool) *clients {
	c := &clients{seed: maphash.MakeSeed(), v4: newZone(r, burst),
		networks: newBySource(r, burst, newNetworks)}
	if byField {
		c.keys = newBySource(r, burst, newKeys)
	}
	return c
}

// take counts a request of an address as zone.take does.
func (c *clients) take(client netip.Addr, now int64) (wait int64) {
	network := networks.Of(client)
	if !network.Is6() { // or of a UNIX socket
		return c.v4.take(c.hash(network), now)
	}
	return c.networks.take(c.hash(network), c.hash(networks.ClientNet(client)), now)
}

// takeKey counts a request with a key, a value of the header field, from an address.
func (c *clients) takeKey(key uint64, client netip.Addr, now int64) (wait int64) {
	return c.keys.take(key, c.hash(networks.ClientNet(client)), now)
}

// hash makes a key of an address. The seed is secret, so no client can choose its row.
func (c *clients) hash(a netip.Addr) uint64 {
	b := a.As16()
	return maphash.Bytes(c.seed, b[:])
}

// take counts a request of a member, or of its source if that has brought too many new ones.
func (c bySource) take(member, source uint64, now int64) (wait int64) {
	if !c.members.has(member, now) && c.sources.take(source, now) > 0 {
		member = ^source // a /48 and its first /64 have the same address
	}
	return c.members.take(member, now)
}

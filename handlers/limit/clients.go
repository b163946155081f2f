package limit

import (
	"crypto/sha256"
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
// cost a client most, are not pushed out by IPv6 networks, nor addresses by texts.
type clients struct {
	seed     maphash.Seed
	v4       *zone    // nil: all clients are one
	networks bySource // the /64s of a /48
	keys     bySource // the texts of an address; nil zones: addresses count alone
	all      *zone    // of everybody; nil: of each client
	shared   *shared  // nil: what passes here counts here alone
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

func newClients(r Rate, burst int, by keyKind) *clients {
	c := &clients{seed: maphash.MakeSeed()}
	if by == byEverybody {
		c.all = newZone(r, burst)
		return c
	}
	c.v4, c.networks = newZone(r, burst), newBySource(r, burst, newNetworks)
	if by == byText {
		c.keys = newBySource(r, burst, newKeys)
	}
	return c
}

// id names a client to other processes: its kind, and an address or the digest of a text.
type id struct {
	kind kind
	of   [16]byte
}

type kind byte

const (
	ofV4 kind = iota // or of a UNIX socket
	ofV6
	ofText
	ofAll
)

// take counts a request of an address as zone.take does.
func (c *clients) take(client netip.Addr, now, delay int64) turn {
	if c.all != nil {
		return c.note(c.all.take(0, now, delay), id{kind: ofAll})
	}
	network := networks.Of(client)
	of := network.As16()
	if !network.Is6() { // or of a UNIX socket
		return c.note(c.v4.take(c.hash(of), now, delay), id{ofV4, of})
	}
	t, itself := c.networks.take(c.hash(of), c.hash(networks.ClientNet(client).As16()), now, delay)
	if !itself {
		return t
	}
	return c.note(t, id{ofV6, of})
}

// takeText counts a request with a text, which is its key, from an address.
func (c *clients) takeText(text []byte, client netip.Addr, now, delay int64) turn {
	var of [16]byte
	var key uint64
	if c.shared != nil { // the others know another seed
		digest := sha256.Sum256(text)
		copy(of[:], digest[:])
		key = c.hash(of)
	} else {
		key = maphash.Bytes(c.seed, text)
	}
	t, itself := c.keys.take(key, c.hash(networks.ClientNet(client).As16()), now, delay)
	if !itself {
		return t
	}
	return c.note(t, id{ofText, of})
}

// note lets other processes know of a request that has passed.
func (c *clients) note(t turn, of id) turn {
	if t.pass && c.shared != nil {
		c.shared.note(of)
	}
	return t
}

// add counts n requests that have passed in another process.
func (c *clients) add(of id, n, now int64) {
	z, key := c.all, uint64(0)
	if z == nil {
		key = c.hash(of.of)
		switch of.kind {
		case ofV4:
			z = c.v4
		case ofV6:
			z = c.networks.members
		case ofText:
			z = c.keys.members
		}
	}
	if z != nil && (of.kind == ofAll) == (c.all != nil) {
		z.add(key, n, now)
	}
}

// hash makes a key of an address, or of a digest. The seed is secret, so no client can choose its
// row.
func (c *clients) hash(of [16]byte) uint64 { return maphash.Bytes(c.seed, of[:]) }

// take counts a request of a member, or of its source if that has brought too many new ones; then
// itself is false.
func (c bySource) take(member, source uint64, now, delay int64) (t turn, itself bool) {
	itself = c.members.has(member, now) || c.sources.take(source, now, 0).pass
	if !itself {
		member = ^source // a /48 and its first /64 have the same address
	}
	return c.members.take(member, now, delay), itself
}

package networks

import "net/netip"

// Counts say how much clients hold, such as connections or bytes, by network. They have an entry
// for each network and client network that holds anything. The zero Counts are all zero. They have
// no lock: the caller has one, under which it also decides what a client may hold.
type Counts struct {
	held map[netip.Prefix]int64
}

// Add counts n more of a client, or less. It does not count what clients without an address hold.
func (c *Counts) Add(client netip.Addr, n int64) {
	network, clientNet := Prefixes(client)
	c.add(network, n)
	if clientNet != network {
		c.add(clientNet, n)
	}
}

func (c *Counts) add(p netip.Prefix, n int64) {
	switch left := c.held[p] + n; {
	case left == 0 || !p.IsValid():
		delete(c.held, p)
	case c.held == nil:
		c.held = map[netip.Prefix]int64{p: left}
	default:
		c.held[p] = left
	}
}

// Of returns what the network and the client network of a client hold, see Prefixes.
func (c *Counts) Of(client netip.Addr) (network, clientNet int64) {
	n, s := Prefixes(client)
	return c.held[n], c.held[s]
}

// Len returns how many networks and client networks hold anything; an IPv4 address is one.
func (c *Counts) Len() int { return len(c.held) }

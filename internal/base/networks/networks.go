// Package networks groups clients by network, and counts what they hold. Any goroutine may call its
// functions.
package networks

import (
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Unix stands in a list of networks for the clients of UNIX sockets, which have no address. The
// access log calls them the same.
const Unix = "unix:"

// Of returns the address by which a client is counted: its IPv4 address, or the /64 of its IPv6
// address, since every customer has at least a /64. For a client of a UNIX socket it returns the
// zero Addr, which all of these share.
func Of(client netip.Addr) netip.Addr {
	if client.Is4() { // mostly, and for each request
		return client
	}
	network, _ := Prefixes(client)
	return network.Addr()
}

// ClientNet returns the address of the client network, which stands for the customer of a provider:
// the client's IPv4 address, or the /48 of its IPv6 address, as no customer needs more than that
// (RFC 6177). For a client of a UNIX socket it returns the zero Addr.
func ClientNet(client netip.Addr) netip.Addr {
	if client.Is4() {
		return client
	}
	_, clientNet := Prefixes(client)
	return clientNet.Addr()
}

// Prefixes returns the networks whose addresses Of and ClientNet return. They are one for IPv4, and
// not valid for a client of a UNIX socket.
func Prefixes(client netip.Addr) (network, clientNet netip.Prefix) {
	client = client.Unmap()
	if client.Is6() {
		network, _ = client.Prefix(64) // without a zone
		clientNet, _ = client.Prefix(48)
		return network, clientNet
	}
	network, _ = client.Prefix(client.BitLen())
	return network, network
}

// Set is a set of networks. It does not change once it is made.
type Set struct{ all *Map[struct{}] }

// Parse makes a set of networks such as "10.0.0.0/8", of addresses, and of Unix.
func Parse(list []string) (*Set, error) {
	m := newMap[struct{}](len(list))
	for _, text := range list {
		if _, err := m.put(text, struct{}{}); err != nil {
			return nil, err
		}
	}
	m.sort()
	return &Set{m}, nil
}

// Contains reports whether the client comes from one of the networks.
func (s *Set) Contains(client netip.Addr) bool {
	_, ok := s.all.Find(client)
	return ok
}

// Map has a value for each of some networks. It does not change once it is made.
type Map[V any] struct {
	of     map[netip.Prefix]V
	v4, v6 []int // the lengths of prefixes that there are, the longest first
	unix   *V
}

// NewMap makes a Map of values by network, such as "10.0.0.0/8", address, and Unix. Of two texts
// that mean the same network it refuses one.
func NewMap[V any](values map[string]V) (*Map[V], error) {
	m := newMap[V](len(values))
	for _, text := range slices.Sorted(maps.Keys(values)) {
		if twice, err := m.put(text, values[text]); err != nil {
			return nil, err
		} else if twice {
			return nil, fmt.Errorf("%q: this network is there twice", text)
		}
	}
	m.sort()
	return m, nil
}

func newMap[V any](n int) *Map[V] { return &Map[V]{of: make(map[netip.Prefix]V, n)} }

func (m *Map[V]) put(text string, value V) (twice bool, err error) {
	if text == Unix {
		m.unix = &value
		return false, nil
	}
	p, err := Prefix(text)
	if err != nil {
		return false, err
	}
	lengths := &m.v6
	if p.Addr().Is4() {
		lengths = &m.v4
	}
	_, twice = m.of[p]
	m.of[p] = value
	if !slices.Contains(*lengths, p.Bits()) {
		*lengths = append(*lengths, p.Bits())
	}
	return twice, nil
}

func (m *Map[V]) sort() {
	for _, lengths := range [][]int{m.v4, m.v6} {
		slices.SortFunc(lengths, func(a, b int) int { return b - a })
	}
}

// Find returns the value of the smallest network that the client comes from. It looks once for each
// length of a prefix in the map, so that thousands of networks cost no more than a few.
func (m *Map[V]) Find(client netip.Addr) (value V, ok bool) {
	client = client.Unmap().WithZone("")
	lengths := m.v6
	switch {
	case !client.IsValid():
		if m.unix != nil {
			return *m.unix, true
		}
		return value, false
	case client.Is4():
		lengths = m.v4
	}
	for _, bits := range lengths {
		p, _ := client.Prefix(bits)
		if value, ok = m.of[p]; ok {
			return value, true
		}
	}
	return value, false
}

// Prefix reads a network, or an address as the network of that one. IPv4 addresses that are mapped
// to IPv6 become IPv4 ones, as those of clients are compared.
func Prefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, notANetwork(text)
		}
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() && p.Bits() < 96 {
		return netip.Prefix{}, notANetwork(text)
	}
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if masked := p.Masked(); masked != p {
		// 10.1.2.3/8 may be meant to be 10.0.0.0/8 or 10.1.2.3. A guess would let in the wrong ones.
		return netip.Prefix{}, fmt.Errorf("%q is no network: that one begins at %v", text, masked)
	}
	return p, nil
}

// Within reports whether all clients of a are clients of b too, two entries of lists that Parse
// takes.
func Within(a, b string) bool {
	if a == Unix || b == Unix {
		return a == b
	}
	of, errA := Prefix(a)
	in, errB := Prefix(b)
	return errA == nil && errB == nil && in.Bits() <= of.Bits() && in.Contains(of.Addr())
}

func notANetwork(text string) error {
	return fmt.Errorf("expected a network or an address, such as \"10.0.0.0/8\", "+
		"\"2001:db8::/32\" or \"192.0.2.7\", or %q, found %q", Unix, text)
}

// Values yields the values of all networks.
func (m *Map[V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		if m.unix != nil && !yield(*m.unix) {
			return
		}
		for _, value := range m.of {
			if !yield(value) {
				return
			}
		}
	}
}

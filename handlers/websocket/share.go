package websocket

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

const (
	// maxAgreed is how many bytes the windows of what peers have sent take, of all connections of the
	// process that have agreed on one: an end cannot give up what its peer may refer to. The next
	// connections agree that their peers' messages refer to nothing.
	maxAgreed = 64 << 20

	// maxShare is how many of these bytes are for connections of one address, once half of them are
	// taken: one client is not to have them all, and costs the others their compression.
	maxShare = maxAgreed / 16
)

var (
	agreedUpon atomic.Int64 // of these bytes

	sharesMu sync.Mutex
	shares   = make(map[netip.Addr]int64) // of clients' addresses that have some
)

// client returns the address that a client's share is counted for: a network of 64 bits of IPv6.
// That of a UNIX socket is the zero Addr, which has no share of its own.
func client(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	at := tcp.AddrPort().Addr().Unmap().WithZone("")
	if at.Is6() {
		at = netip.PrefixFrom(at, 64).Masked().Addr()
	}
	return at
}

// agreeOnWindow reports whether there is room for a window of 2^bits bytes of what a client of an
// address sends. Then it is agreed upon, until disagree.
func agreeOnWindow(at netip.Addr, bits uint8) bool {
	size := int64(1) << bits
	sharesMu.Lock()
	defer sharesMu.Unlock()
	share := shares[at] + size
	if all := agreedUpon.Add(size); all > maxAgreed ||
		at.IsValid() && all > maxAgreed/2 && share > maxShare {
		agreedUpon.Add(-size)
		return false
	}
	shares[at] = share
	return true
}

func disagree(at netip.Addr, bits uint8) {
	size := int64(1) << bits
	sharesMu.Lock()
	defer sharesMu.Unlock()
	agreedUpon.Add(-size)
	if shares[at] -= size; shares[at] == 0 {
		delete(shares, at)
	}
}

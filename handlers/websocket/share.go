package websocket

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

const (
	// maxReadWindows bounds the bytes of all read windows of the process: an end cannot free a window
	// to which its peer may refer. Beyond that, connections agree that their peers' messages refer to
	// nothing.
	maxReadWindows = 64 << 20

	// maxClientWindows bounds the bytes for connections of one address, once half of maxReadWindows
	// are taken, so that one client does not take the windows of all others.
	maxClientWindows = maxReadWindows / 16
)

var (
	readWindowBytes atomic.Int64 // of these bytes

	sharesMu        sync.Mutex
	windowsByClient = make(map[netip.Addr]int64) // by client
)

// client returns the address by which a client's bytes are counted: for IPv6 its /64. A client of a
// UNIX socket has the zero Addr, and no limit of its own.
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

// reserveWindow reserves a read window of 2^bits bytes for a client's address, until releaseWindow,
// and reports whether there is room for it.
func reserveWindow(at netip.Addr, bits uint8) bool {
	size := int64(1) << bits
	sharesMu.Lock()
	defer sharesMu.Unlock()
	share := windowsByClient[at] + size
	if all := readWindowBytes.Add(size); all > maxReadWindows ||
		at.IsValid() && all > maxReadWindows/2 && share > maxClientWindows {
		readWindowBytes.Add(-size)
		return false
	}
	windowsByClient[at] = share
	return true
}

func releaseWindow(at netip.Addr, bits uint8) {
	size := int64(1) << bits
	sharesMu.Lock()
	defer sharesMu.Unlock()
	readWindowBytes.Add(-size)
	if windowsByClient[at] -= size; windowsByClient[at] == 0 {
		delete(windowsByClient, at)
	}
}

package main

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/lwango/lwango"
)

const (
	roomsPerAddress = 32 // in which one address may have sockets at a time
	maxRooms        = 4096
)

// joinLimit is for the sockets of one address.
var joinLimit = limit{128, 4}

// guest is what one address has at present. An address is an IPv4 address, or an IPv6 network of 64
// bits, since every customer of a provider has at least that.
type guest struct {
	sockets int
	rooms   map[string]int // sockets in each
	joins   allowance
}

var guests = struct {
	sync.Mutex
	from map[netip.Prefix]*guest
}{from: make(map[netip.Prefix]*guest)}

// admit lets another request of an address in. The caller calls leave when the request ends. The
// error is for the client, which may try again later.
func admit(req *lwango.Request) (leave func(), err error) {
	g, err := admitTo("", req.RemoteAddr().Addr())
	return func() { g.leave("") }, err
}

// admitTo lets another socket of an address in, into a room if that is not "". The caller calls
// leave of the guest when the socket ends; it may be nil.
func admitTo(room string, from netip.Addr) (*guest, error) {
	network, ok := networkOf(from)
	if *perAddress == 0 || !ok {
		return nil, nil
	}
	guests.Lock()
	defer guests.Unlock()
	now := time.Now()
	forgetGuests(now)
	g := guests.from[network]
	if g == nil {
		g = &guest{rooms: make(map[string]int)}
		guests.from[network] = g
	}
	switch {
	case g.sockets >= int(*perAddress):
		return nil, errors.New("too many connections from your address")
	case room != "" && g.rooms[room] == 0 && len(g.rooms) >= roomsPerAddress:
		return nil, errors.New("too many rooms from your address")
	case !g.joins.take(joinLimit, 1, now):
		return nil, errors.New("too many new connections from your address")
	}
	g.sockets++
	if room != "" {
		g.rooms[room]++
	}
	return g, nil
}

// leave ends a socket of an address.
func (g *guest) leave(room string) {
	if g == nil {
		return
	}
	guests.Lock()
	defer guests.Unlock()
	g.sockets--
	if g.rooms[room]--; g.rooms[room] <= 0 {
		delete(g.rooms, room)
	}
}

// later answers a request that is not admitted.
func later(resp *lwango.Response, err error) int {
	resp.Header().Set("Retry-After", "10")
	resp.WriteString(err.Error() + "\n")
	return 503
}

// forgetGuests looks at some addresses, and forgets those that have no sockets and a full
// allowance. So there are never many more addresses than sockets, and each new socket costs the
// same, however many addresses there are.
func forgetGuests(now time.Time) {
	looked := 0
	for network, g := range guests.from { // in random order
		if g.sockets == 0 && g.joins.full(now) {
			delete(guests.from, network)
		}
		if looked++; looked == 8 {
			break
		}
	}
}

// networkOf returns what counts as one address. A UNIX socket has none.
func networkOf(addr netip.Addr) (netip.Prefix, bool) {
	if !addr.IsValid() {
		return netip.Prefix{}, false
	}
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	network, err := addr.Prefix(bits)
	return network, err == nil
}

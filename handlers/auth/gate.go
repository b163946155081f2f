package auth

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"net/netip"
	"runtime"
	"sync"

	"github.com/lwango/lwango/internal/networks"
	"github.com/lwango/lwango/loop"
)

// gate is where credentials wait to be verified. A hash is made to take long, so clients that guess
// could keep all processors busy. The gate lets few computations run at a time and few more wait.
// Only some of these are of one network, and once half of the places are taken, only one: so a few
// networks that guess do not take them all. Equal credentials that come at the same time, as a
// browser sends them, are verified once.
//
// It has goroutines of its own, not workers of a loop. A result is for requests on all loops, so it
// does not depend on the one that has asked first; and clients that guess take no worker away from
// handlers.
type gate struct {
	running func() chan struct{} // has room for as many as run at a time

	mu      sync.Mutex
	flights map[[sha256.Size]byte]*loop.Promise[bool]
	from    map[netip.Addr]int // flights by network
}

const (
	maxFlights            = 16 // that run or wait, of the whole process
	maxFlightsFromNetwork = 4
)

// gates is the process's only gate: all routes have the same processors.
var gates = newGate()

func newGate() *gate {
	return &gate{
		// Half as many as there are loops, which have one processor less than the process has; but
		// there are none before the first request.
		running: sync.OnceValue(func() chan struct{} {
			return make(chan struct{}, max((runtime.GOMAXPROCS(0)-1)/2, 1))
		}),
		flights: make(map[[sha256.Size]byte]*loop.Promise[bool]),
		from:    make(map[netip.Addr]int),
	}
}

var (
	errFull        = errors.New("too many verifications")
	errFullNetwork = errors.New("too many verifications for one network")
)

// verify promises whether h is the hash of the password. digest is that of the credentials. The
// error is errFull or errFullNetwork.
func (g *gate) verify(client netip.Addr, digest [sha256.Size]byte, h hash, password []byte,
) (*loop.Promise[bool], error) {
	network := networks.Of(client)
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.flights[digest]
	most := maxFlightsFromNetwork
	if len(g.flights) >= maxFlights/2 {
		most = 1
	}
	switch {
	case p != nil:
		return p, nil
	case g.from[network] >= most:
		return nil, errFullNetwork
	case len(g.flights) >= maxFlights:
		return nil, errFull
	}
	p = new(loop.Promise[bool])
	g.flights[digest] = p
	g.from[network]++
	own := bytes.Clone(password) // the request's bytes change when the next one comes
	go func() {
		running := g.running()
		running <- struct{}{}
		ok := h.matches(own)
		<-running
		g.mu.Lock()
		delete(g.flights, digest)
		if g.from[network]--; g.from[network] == 0 {
			delete(g.from, network)
		}
		g.mu.Unlock()
		p.Resolve(ok)
	}()
	return p, nil
}

// Package slots takes the slots of work that computes, so that a test sees what waits for them.
package slots

import (
	"net/netip"
	"sync"

	"github.com/lwango/lwango/internal/base/fair"
)

var (
	mu    sync.Mutex
	taken = make(map[*fair.Slots]int)
)

// Take takes all slots, of which there are as many as fair.Processors says, until free is called.
func Take(of *fair.Slots) (free func()) {
	n := fair.Processors()
	count(of, n)
	begun := make(chan struct{}, n)
	for range n {
		of.Enter(netip.Addr{}, false, func() { begun <- struct{}{} })
	}
	for range n {
		<-begun
	}
	return func() {
		for range n {
			of.Leave()
		}
		count(of, -n)
	}
}

func count(of *fair.Slots, n int) {
	mu.Lock()
	defer mu.Unlock()
	taken[of] += n
}

// Working reports whether work has slots, besides what Take has taken.
func Working(of *fair.Slots) bool {
	mu.Lock()
	defer mu.Unlock()
	n, _ := of.Stats()
	return n > taken[of]
}

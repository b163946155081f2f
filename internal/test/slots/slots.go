// Package slots takes the slots of work that computes, so that a test sees what waits for them.
package slots

import (
	"net/netip"

	"github.com/lwango/lwango/internal/base/fair"
)

// Take takes all slots, of which there are as many as fair.Processors says, until free is called.
func Take(of *fair.Slots) (free func()) {
	n := fair.Processors()
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
	}
}

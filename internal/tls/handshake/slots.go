package handshake

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/loop"
)

// Slots are for handshakes that compute. A client can ask for more handshakes than the processors
// can compute, at no cost of its own: it may send the same ClientHello again and again. Slots leave
// processors to the loops, and since clients take turns, others have their handshakes, too. A
// handshake has a slot while it computes, but not while it waits for the client.
var Slots = fair.NewSlots(fair.Processors)

// ErrNoSlot is the error of a handshake that has waited for a slot for all of its time, or most of
// it.
var ErrNoSlot = fmt.Errorf("no turn for a handshake: %w", loop.ErrDeadlineExceeded)

// maxSlotTime is how long a handshake has its slot at most, many times as long as one computes. A
// handshake that takes longer waits for something in a callback of the tls.Config, and others need
// not wait with it.
const maxSlotTime = 50 * time.Millisecond

// compute waits for a slot, calls begin to let the handshake go on, and waits until it pauses or
// has ended. hello says that it begins with the client's first flight.
func (n *negotiation) compute(
	t *loop.Thread, peer netip.Addr, begin func(), hello bool, until time.Time,
) error {
	var called loop.Promise[struct{}]
	slot := Slots.Enter(peer, false, func() { called.Resolve(struct{}{}) })
	entered := true
	leave := func() {
		if entered && !Slots.Withdraw(slot) {
			Slots.Leave()
		}
		entered = false
	}
	defer leave() // also when the thread is killed
	if !called.Ready() {
		var err error
		before := t.Loop().Time()
		if n.isServer {
			// A client that leaves after its ClientHello is not served. After its last flight, a request and
			// the end of its sending half may follow.
			waits := t.KeepWaiting(!hello || t.Gone())
			_, err = called.Await(t, max(until.Sub(t.Loop().Time()), 0))
			t.KeepWaiting(waits)
		} else {
			_, err = called.Await(t, max(until.Sub(t.Loop().Time()), 0))
		}
		n.waited += t.Loop().Time().Sub(before)
		switch err {
		case nil:
		case loop.ErrDeadlineExceeded:
			return ErrNoSlot
		default:
			return err
		}
	}
	begin()
	rest := max(until.Sub(t.Loop().Time()), 0)
	_, err := n.paused.Await(t, min(maxSlotTime, rest))
	if err == loop.ErrDeadlineExceeded && rest > maxSlotTime {
		leave()
		_, err = n.paused.Await(t, rest-maxSlotTime)
	}
	return err
}

package handshake

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/lwango/lwango/internal/base/fair"
	"github.com/lwango/lwango/loop"
)

// Slots are for handshakes that compute. A client can ask for more of them than the processors can
// do, at no cost of its own: the same ClientHello will do again and again. With slots, the loops
// keep their processors, and with turns other clients have their handshakes, too. A handshake has a
// slot while it computes, and not while it waits for the client.
var Slots = fair.NewSlots(fair.Processors)

// ErrNoTurn is the error of a handshake whose time has passed while it waited for its turn, or most
// of it.
var ErrNoTurn = fmt.Errorf("no turn for a handshake: %w", loop.ErrDeadlineExceeded)

// mayCompute is for how long a handshake has its slot at most: many times what one takes to
// compute. One that takes longer waits for something in a callback of the tls.Config, and others
// need not wait with it.
const mayCompute = 50 * time.Millisecond

// compute waits for the peer's turn, lets n go on by begin, and waits until it pauses, or has
// ended. hello: it begins with the client's first flight.
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
		if n.serves {
			// A client that leaves behind its hello is not served. Behind its last flight there may be
			// a request, and the end of its sending half.
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
			return ErrNoTurn
		default:
			return err
		}
	}
	begin()
	rest := max(until.Sub(t.Loop().Time()), 0)
	_, err := n.pause.Await(t, min(mayCompute, rest))
	if err == loop.ErrDeadlineExceeded && rest > mayCompute {
		leave()
		_, err = n.pause.Await(t, rest-mayCompute)
	}
	return err
}

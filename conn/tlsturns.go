package conn

import (
	"time"

	"github.com/lwango/lwango/internal/fair"
	"github.com/lwango/lwango/loop"
)

// handshakes are the slots for TLS handshakes that compute. A client can ask for more of them than
// the processors can do, at no cost of its own: the same ClientHello will do again and again. With
// slots, the loops keep their processors, and with turns other clients have their handshakes, too.
// A handshake has a slot while it computes, and not while it waits for the client.
var handshakes = fair.NewSlots(fair.Processors)

// mayCompute is for how long a handshake has its slot at most: many times what one takes to
// compute. One that takes longer waits for something in a callback of the tls.Config, and others
// need not wait with it.
const mayCompute = 50 * time.Millisecond

// Handshakes returns how many TLS handshakes compute in this process, and how many wait for that.
// Any goroutine may call it.
func Handshakes() (running, waiting int) { return handshakes.Stats() }

// compute waits for the turn of n, lets it go on by begin, and waits until it pauses, or has ended.
// hello: it begins with the client's first flight.
func (t *turn) compute(n *negotiation, begin func(), hello bool, until time.Time) error {
	c := t.c
	var called loop.Promise[struct{}]
	slot := handshakes.Enter(c.remote.addrPort().Addr(), false, func() { called.Resolve(struct{}{}) })
	entered := true
	leave := func() {
		if entered && !handshakes.Withdraw(slot) {
			handshakes.Leave()
		}
		entered = false
	}
	defer leave() // also when the thread is killed
	if !called.Ready() {
		// A client that leaves behind its hello is not served. Behind its last flight there may be a
		// request, and the end of its sending half.
		waits := c.KeepWaiting(!hello || c.Gone())
		_, err := called.Await(&c.Thread, max(until.Sub(c.Loop().Time()), 0))
		c.KeepWaiting(waits)
		if err != nil {
			return err
		}
	}
	begin()
	rest := max(until.Sub(c.Loop().Time()), 0)
	_, err := n.pause.Await(&c.Thread, min(mayCompute, rest))
	if err == loop.ErrDeadlineExceeded && rest > mayCompute {
		leave()
		_, err = n.pause.Await(&c.Thread, rest-mayCompute)
	}
	return err
}

package http2

// A peer costs what the server does or holds without a use: output that was gathered for the peer
// and that its socket has not taken, a frame, a stream that the peer resets or makes this side
// reset, a request that has to be refused. Content, streams that come to their end, and time refund
// some of it. So one number, in bytes, says what a peer costs, whichever of these it combines.
//
// At MaxPendingOutput nothing more of the peer is read until its socket has taken the pending
// output: then no frame of the peer can make more. Beyond maxCost the connection ends.
const (
	// MaxPendingOutput is more than content alone comes to, so that an upload goes on beside a slow
	// download.
	MaxPendingOutput = OutputSize + MaxOutput
	maxCost          = 256 << 10

	FrameCost = 256           // of a frame of no use
	ResetCost = 4 * FrameCost // of a stream that ends without an answer, besides the frame's
	// DataRefund is for content of the peer, and allows for as many frames between its pieces.
	DataRefund   = 4 * FrameCost
	StreamRefund = 8 * FrameCost // for a stream that comes to its end

	// continuationCost is that of a Continuation frame, less its length: a block that comes in many
	// frames has full ones.
	continuationCost = 8 * FrameCost

	// refundPerSecond is for time: a peer that pings now and then is not a flood.
	refundPerSecond = 16 * FrameCost

	// maxSurplus is how much content that the peer has taken may refund in advance.
	maxSurplus = 256 << 20
)

// peerCost is what a peer costs besides the pending output.
type peerCost struct {
	cost  int64 // below 0: a surplus, for frames alone
	since int64 // the second up to which time has refunded
}

// charge adds to the cost.
func (d *peerCost) charge(now int64, cost int64) {
	if now > d.since {
		if d.cost > 0 {
			d.cost = max(d.cost-(now-d.since)*refundPerSecond, 0)
		}
		d.since = now
	}
	d.cost += cost
}

// refund takes n bytes off the cost, which does not become a surplus.
func (d *peerCost) refund(n int64) {
	if d.cost > 0 {
		d.cost = max(d.cost-n, 0)
	}
}

// sent allows for the frames by which the peer announces that it has read n bytes, on both windows
// and perhaps in small pieces.
func (d *peerCost) sent(n int) {
	d.cost = max(d.cost-2*FrameCost-int64(n)/2, -maxSurplus)
}

// frameCost returns what a frame costs.
func frameCost(h Header, payload []byte) int64 {
	switch {
	case h.Type == Continuation:
		return max(continuationCost-int64(len(payload)), 0)
	case h.Type == Data && len(payload) > 0:
		return 0
	}
	return FrameCost
}

// pendingOutput returns how many gathered bytes the socket has not taken.
func (w *Wire) pendingOutput() int64 { return int64(w.unwritten + len(w.Out)) }

// MustFlush reports whether the peer's socket has to take output before more of the peer is read.
// unwritten is how much of what was sent the socket has not taken.
func (w *Wire) MustFlush(unwritten int) bool {
	w.unwritten = unwritten
	n := w.pendingOutput()
	return n > 0 && max(w.cost, 0)+n >= MaxPendingOutput
}

// checkCost returns the code that ends the connection of a peer that costs too much.
func (w *Wire) checkCost() Code {
	if max(w.cost, 0)+w.pendingOutput() > maxCost {
		return EnhanceYourCalm
	}
	return NoError
}

// Refund takes n bytes off the cost of the peer.
func (w *Wire) Refund(n int64) { w.refund(n) }

// ChargeReset charges for a stream that ends without an answer because of the peer. A surplus does
// not cover that. A code other than NoError ends the connection.
func (w *Wire) ChargeReset() Code {
	w.cost = max(w.cost, 0) + ResetCost
	return w.checkCost()
}

package http2

// A peer owes for what it takes without paying: what was gathered for it and its socket has not
// taken, and a price for each frame, for each stream that it takes back or makes this side reset,
// and for each that has to be refused. It pays with content, with the streams that come to their
// end, and with time. So one number, in bytes, says what a peer costs, whichever ways it combines.
//
// At the first mark nothing more of the peer is read until its socket has taken what there is for
// it: then nothing that it sends can make more. Beyond the second one, the connection ends.
const (
	// MaxUntaken is the first mark. It is more than content alone comes to, so that an upload goes on
	// beside a slow download.
	MaxUntaken = OutputSize + MaxOutput
	maxDebt    = 256 << 10 // the second one

	FramePrice = 256            // of a frame of no use
	ResetPrice = 4 * FramePrice // of a stream that ends without an answer, besides the frame's
	// what content of the peer pays, and so much for frames between its pieces
	Worth = 4 * FramePrice
	Paid  = 8 * FramePrice // what a stream pays that comes to its end

	// continuationPrice is that of a Continuation frame, less its length: a block that comes in many
	// frames has full ones.
	continuationPrice = 8 * FramePrice

	// secondPays is what a second pays: a peer that pings now and then is not a flood.
	secondPays = 16 * FramePrice

	// maxCredit is what content that the peer has taken may pay in advance.
	maxCredit = 256 << 20
)

// debt is what a peer owes besides what its socket has not taken.
type debt struct {
	owed  int64 // below 0: it was paid in advance, for frames alone
	since int64 // the second up to which time has paid
}

// charge adds a price.
func (d *debt) charge(now int64, price int64) {
	if now > d.since {
		if d.owed > 0 {
			d.owed = max(d.owed-(now-d.since)*secondPays, 0)
		}
		d.since = now
	}
	d.owed += price
}

// pay takes off something, of what is owed.
func (d *debt) pay(n int64) {
	if d.owed > 0 {
		d.owed = max(d.owed-n, 0)
	}
}

// taken allows for the frames by which the peer announces that it has read n bytes, on both windows
// and perhaps in small pieces.
func (d *debt) taken(n int) {
	d.owed = max(d.owed-2*FramePrice-int64(n)/2, -maxCredit)
}

// price returns what a frame costs.
func price(h Header, payload []byte) int64 {
	switch {
	case h.Type == Continuation:
		return max(continuationPrice-int64(len(payload)), 0)
	case h.Type == Data && len(payload) > 0:
		return 0
	}
	return FramePrice
}

// untaken returns how much was gathered that the socket has not taken.
func (w *Wire) untaken() int64 { return int64(w.held + len(w.Out)) }

// Pressed reports that nothing more of the peer is to be read until its socket has taken something.
// held is how much that has not taken of what was sent.
func (w *Wire) Pressed(held int) bool {
	w.held = held
	n := w.untaken()
	return n > 0 && max(w.owed, 0)+n >= MaxUntaken
}

// excessive ends the connection of a peer that owes more than any may.
func (w *Wire) excessive() Code {
	if max(w.owed, 0)+w.untaken() > maxDebt {
		return EnhanceYourCalm
	}
	return NoError
}

// Pay takes off so many bytes of what the peer owes.
func (w *Wire) Pay(n int64) { w.pay(n) }

// ChargeReset charges for a stream that ends without an answer because of the peer. Nothing has
// paid for that in advance. A code other than NoError ends the connection.
func (w *Wire) ChargeReset() Code {
	w.owed = max(w.owed, 0) + ResetPrice
	return w.excessive()
}

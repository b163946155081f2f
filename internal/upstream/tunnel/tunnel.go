package tunnel

import "time"

// Tunnel is a client and its upstream.
type Tunnel struct {
	Client, Up End

	// Times of the loop's clock.
	Began time.Duration // what Limits.Total counts from
	moved time.Duration // the last byte
	// when to wait no more for what follows a failure of the upstream; 0: it has not failed
	linger time.Duration

	checkAfter time.Duration // until the next check whether the client has all, once it is to be reset
}

// Limits are how long a Tunnel may last.
type Limits struct {
	Idle  time.Duration // while no byte moves
	Half  time.Duration // the same, once one side has said all; 0: as Idle
	Total time.Duration // in all; 0: for ever
}

// Reason is what has ended a Tunnel.
type Reason uint8

// The reasons; Open: none.
const (
	Open       Reason = iota
	Complete          // both sides have said all
	ClientLeft        // before it had all
	// the upstream has left before it had all, or failed; the client has what it has said
	UpFailed
	Idle   // the time of Limits.Idle or Half is over
	TooOld // the time of Limits.Total is over
)

const (
	// lingerTime is for how long a client whose upstream has failed may go on to send, so that it can
	// read what the upstream has said: a socket that is closed with input unread is reset, and one
	// that is reset drops what has not arrived.
	lingerTime = 5 * time.Second

	// From firstCheck to lastCheck it takes until the next check whether the client has all.
	firstCheck = time.Millisecond
	lastCheck  = 64 * time.Millisecond
)

// Start begins the time in which bytes have to move.
func (t *Tunnel) Start(now time.Duration) { t.moved = now }

// Move moves what can be moved in both directions, each byte of the upstream by way of f, unless
// that is nil. It reports whether there may be more to move before the thread waits, and what has
// ended the tunnel. Then the caller closes both ends, that of the upstream with a reset if it is
// Cut.
//
// An upstream that has failed, or does not take what its client sends, does not end the tunnel at
// once: the client gets what the upstream has said, and what it goes on to send is dropped. Then
// the client is reset if the upstream was, see Left. A client that has failed does end it.
func (t *Tunnel) Move(now time.Duration, f Filter) (again bool, why Reason) {
	client, up := &t.Client, &t.Up
	there, more := client.moveTo(up, nil)
	back, further := up.moveTo(client, f)
	if there || back {
		t.moved = now
	}
	upFailed := up.Failed || up.broken
	switch {
	case client.Failed || client.broken:
		return false, ClientLeft
	case client.Ended && up.Ended && client.shut && up.shut && client.Held() == 0 && up.Held() == 0 &&
		!up.Failed:
		if upFailed {
			return false, UpFailed
		}
		return false, Complete
	}
	if up.Ended && upFailed && client.shut && t.linger == 0 {
		t.linger = now + lingerTime
	}
	return more || further, Open
}

// Left returns how long the tunnel may go on if no byte moves, and what ends it then. If that is 0
// or less, it has ended; else the caller asks again when the time is over. A client whose upstream
// has failed has no time left once it has all that the upstream has said. When a client is closed
// then, it is reset if it does not get all, or if its upstream was.
func (t *Tunnel) Left(now time.Duration, limits *Limits) (left time.Duration, why Reason) {
	left, why = t.left(now, limits)
	if left <= 0 && t.ClientCut() {
		t.Client.conn().ResetOnClose()
	}
	return left, why
}

// ClientCut reports whether the client has not got all that the upstream has said, or cannot tell:
// an orderly end would say that it has. An upstream that has ended in order and takes nothing any
// more has said all; a reset would drop what the client's kernel has not got yet.
func (t *Tunnel) ClientCut() bool { return t.Up.Failed || t.Client.Held() > 0 }

func (t *Tunnel) left(now time.Duration, limits *Limits) (left time.Duration, why Reason) {
	idle := limits.Idle
	if limits.Half > 0 && (t.Client.Ended || t.Up.Ended) {
		idle = min(idle, limits.Half)
	}
	left, why = t.moved+idle-now, Idle
	if limits.Total > 0 {
		if rest := t.Began + limits.Total - now; rest < left {
			left, why = rest, TooOld
		}
	}
	if t.linger == 0 {
		return left, why
	}
	if rest := t.linger - now; rest < left {
		left, why = rest, UpFailed
	}
	switch {
	case left <= 0 || !t.Up.Failed:
		return left, why
	case !t.Client.unsent():
		return 0, UpFailed
	}
	// No event tells when the client's kernel has all.
	t.checkAfter = max(min(2*t.checkAfter, lastCheck), firstCheck)
	if t.checkAfter < left {
		return t.checkAfter, UpFailed
	}
	return left, why
}

// Moved returns the time of the last byte.
func (t *Tunnel) Moved() time.Duration { return t.moved }

package conn

import (
	"time"

	"github.com/lwango/lwango/loop"
)

// Duplex is a mode of a request in which body and answer move at once. A handler that passes on
// both needs it. Only Await waits. A Body.Read that would wait returns stream.ErrWouldBlock. A
// write sends as much as the client has room for, and the Duplex holds the rest: the handler writes
// no more until SendHeld reports that nothing is left. The server's limits hold for both directions
// as usual: body_timeout, write_timeout and min_rate. If the client exceeds one, Await ends, and the
// next Body.Read or SendHeld returns the error.
//
// The mode ends with End, or with the handler. Only the request's thread may use a Duplex.
type Duplex struct{ x *exchange }

// Duplex lets body and answer move at once from now on, until Duplex.End or the end of the handler.
func (r RequestLayer) Duplex() *Duplex {
	d := new(Duplex)
	d.begin(r.x)
	return d
}

func (d *Duplex) begin(x *exchange) {
	x.settle()        // an earlier Duplex writes what it holds
	_ = x.via.flush() // answers to earlier requests; what is held from now on is this one's
	loop.Hold(x.req.Thread, false)
	d.x = x
	x.duplex, x.req.body.tryOnly = d, true
	x.via.beginDuplex()
}

// SetMinRate has the client take at least n bytes a second of the answer, where min_rate demands
// less, until it is called again or the mode ends. What the client has taken before counts, see
// stream.Pace. 0 sets min_rate back.
func (d *Duplex) SetMinRate(n int) {
	if x := d.x; x.duplex == d {
		x.via.setMinRate(n)
	}
}

// drop ends the mode without a wait. What is held is not written, so the connection must end.
func (d *Duplex) drop() {
	if x := d.x; x != nil && x.duplex == d {
		x.duplex, x.req.body.tryOnly = nil, false
		x.via.setMinRate(0)
		x.via.dropDuplex()
	}
}

// End ends the mode and writes what is held, waiting as every write does. The error is that of
// writing.
func (d *Duplex) End() error {
	d.x.settle()
	return d.x.via.writeError()
}

// Held returns how many bytes are held.
func (d *Duplex) Held() int { return d.x.via.held() }

// SendHeld writes as much of what is held as there is room for, and returns how many bytes are
// left. The error is that of this write or of an earlier one.
func (d *Duplex) SendHeld() (left int, err error) { return d.x.via.sendHeld() }

// Await waits until one of the sources is ready, at most limit; negative: without limit. With read
// it also waits until there may be something of the body to read, and if something is held, until
// there may be room for it. The client's own limit for one of these two ends the wait as well, and
// the next read or SendHeld returns its error.
//
// The error is loop.ErrDeadlineExceeded after limit, or one of loop.Thread.AwaitAny's.
func (d *Duplex) Await(limit time.Duration, read bool, sources ...loop.Source) error {
	return d.x.via.awaitDuplex(limit, read, sources)
}

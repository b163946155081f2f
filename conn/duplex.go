package conn

import (
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Duplex is a time in a request in which body and answer move at once: a handler that passes both on
// needs it. Nothing waits but Await. Body.Read returns stream.ErrWouldBlock where it would wait. What
// is written goes out as far as the client has room for it, and the rest is held: see stream.Duplex.
// The limits of both directions are the server's, as ever: body_timeout, write_timeout and min_rate.
// A client that exceeds one ends Await, and the next Body.Read, or SendHeld, returns the error.
//
// It ends with End, or the handler. Only the request's thread may use it.
type Duplex struct {
	stream.Duplex
	x *exchange
}

// Duplex begins such a time.
func (r *Request) Duplex() *Duplex {
	d := new(Duplex)
	d.begin(r.x)
	return d
}

func (d *Duplex) begin(x *exchange) {
	x.settle()    // what an earlier one holds
	_ = x.flush() // answers to earlier requests: what is held later is this one's
	loop.Hold(&x.c.Thread, false)
	d.x = x
	x.duplex, x.req.body.tryOnly = d, true
	x.stream.Duplex(&d.Duplex)
}

// drop ends it without a wait: what is held is not written, so the connection must end.
func (d *Duplex) drop() {
	if x := d.x; x != nil && x.duplex == d {
		x.duplex, x.req.body.tryOnly = nil, false
		x.stream.Duplex(nil)
	}
}

// End ends it. What is held is written first, for which it waits as every write does. The error is that of writing.
func (d *Duplex) End() error {
	d.x.settle()
	return d.x.writeErr
}

// SendHeld writes what is held, as far as there is room, and returns how many bytes are left. The error is that of
// writing, now or before.
func (d *Duplex) SendHeld() (left int, err error) {
	left, err = d.Duplex.SendHeld()
	if err = d.x.wrote(left, err); err == nil {
		err = d.x.writeErr
	}
	return left, err
}

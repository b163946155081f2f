package conn

import (
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango/loop"
)

// Duplex is a time in a request in which body and answer move at once, as whoever passes both on needs it: nothing waits
// but Await. Body.Read returns ErrWouldBlock where it would wait. What is written goes out as far as the client has room
// for it, and the rest is held, which is for whoever writes to bound: by writing no more until SendHeld says that
// nothing is left. The limits of both directions are the server's, as ever: body_timeout, write_timeout and min_rate.
//
// It ends with End, or the handler. Only the request's thread may use it.
type Duplex struct {
	x                  *exchange
	reading, writing   patience
	readable, writable *loop.Readiness
	sources            []loop.Source
}

// Duplex begins such a time.
func (r *Request) Duplex() *Duplex {
	d := new(Duplex)
	d.begin(r.x)
	return d
}

func (d *Duplex) begin(x *exchange) {
	_ = x.flush() // answers to earlier requests: what is held later is this one's
	loop.Hold(&x.c.Thread, false)
	d.x = x
	x.duplex, x.req.body.tryOnly = true, true
}

// End ends it. What is held is written first, for which it waits as every write does. The error is that of writing.
func (d *Duplex) End() error {
	d.x.settle()
	return d.x.writeErr
}

// SendHeld writes what is held, as far as there is room, and returns how many bytes are left. The error is that of
// writing, now or before.
func (d *Duplex) SendHeld() (left int, err error) {
	d.x.sendHeld()
	return len(d.x.held), d.x.writeErr
}

// Await waits until one of the sources is ready, at most limit (negative: without limit); with body, until there is
// perhaps something of that to read; and where something is held, until there is perhaps room for it. A client that
// has one of these two wait for too long ends the wait as well, and is told by the next Body.Read, or by SendHeld.
//
// The error is os.ErrDeadlineExceeded after limit, or one of AwaitAny's.
func (d *Duplex) Await(limit time.Duration, body bool, sources ...loop.Source) error {
	x := d.x
	if d.readable == nil { // most answers are taken by the client without a wait for it
		own := loop.Own(&x.c.Thread)
		d.readable, d.writable = own.Readable(), own.Writable()
	}
	held := len(x.held) > 0
	all := append(d.sources[:0], sources...)
	begin := x.c.Loop().Time()
	least := limit
	if body {
		left, err := d.reading.left(x, &x.reading, x.until, x.set.BodyTimeout)
		if err != nil {
			if x.until.IsZero() { // or else it is for the handler to set another deadline
				x.req.body.err = ErrBodyTimeout
			}
			return nil
		}
		least, all = shorter(least, left), append(all, d.readable)
	} else {
		d.reading = patience{}
	}
	if held {
		left, err := d.writing.left(x, &x.writing, x.writeUntil, x.set.WriteTimeout)
		if err != nil {
			x.c.resetOnClose()
			_ = x.lose(err)
			return nil
		}
		least, all = shorter(least, left), append(all, d.writable)
	} else {
		d.writing = patience{}
	}
	d.sources = all
	_, err := x.req.AwaitAny(least, all...)
	x.spent = 0
	waited := x.c.Loop().Time().Sub(begin)
	if body {
		x.reading.wait(waited)
	}
	if held {
		x.writing.wait(waited)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && least != limit {
		return nil // the client's limit, which the next call finds passed unless something moves
	}
	return err
}

// shorter is the shorter one of two limits.
func shorter(a, b time.Duration) time.Duration {
	if a < 0 || b < a {
		return b
	}
	return a
}

// patience is how long the peer may still have us wait in one direction.
type patience struct {
	until time.Time
	moved int64 // by then
}

// left returns what is left of it. It begins anew with every byte that moves; a deadline, if there is one, does not.
func (p *patience) left(x *exchange, pace *pace, deadline time.Time, limit time.Duration) (time.Duration, error) {
	now := x.c.Loop().Time()
	switch {
	case !deadline.IsZero():
		p.until = deadline
	case pace.tooSlow(x.set.MinRate):
		return 0, errTooSlow
	case p.until.IsZero() || p.moved != pace.bytes:
		p.until, p.moved = now.Add(limit), pace.bytes
	}
	if d := p.until.Sub(now); d > 0 {
		return d, nil
	}
	return 0, os.ErrDeadlineExceeded
}

package conn

import (
	"bytes"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Copy is a copy of a request, for a handler whose answer nobody gets. It needs nothing of the
// request or its client any more, so both may end before it.
type Copy struct{ asking }

// notOfACopy are the fields of a request that a copy does not have: it has its body at hand, without
// trailers, and no connection that could be upgraded.
var notOfACopy = []string{"Content-Length", "Transfer-Encoding", "Trailer", "Expect", "Upgrade"}

// Copy makes a copy of the request as it is now, with below, a clean path without a slash at its
// end, in front of its path. The copy is Internal.
func (r RequestLayer) Copy(below string) *Copy {
	x := r.x
	c := new(Copy)
	c.copies = true
	y := &c.x
	y.c, y.via, y.set, y.asks, y.protocol = x.c, &c.asking, x.set, &c.asking, x.protocol
	q := &y.req
	q.derive(r.Request, func(name string) bool {
		return slices.ContainsFunc(notOfACopy, func(s string) bool { return ascii.EqualFold(name, s) })
	})
	q.x, q.Thread, q.head.Expect100 = y, nil, false
	raw := append([]byte(below), r.RawPathView()...)
	q.aim(append([]byte(below), r.PathView()...), raw, r.RawQuery())
	q.header.detach()
	q.idView = bytes.Clone(q.idView)
	r.LocalAddr() // which is known from now on, whatever becomes of the connection
	return c
}

// Serve calls h with the copy, which gets that body, on t, a thread of the request's loop. It
// returns the status of the answer, of which all else is dropped, or why there is none. It is called
// once. h has the time that it takes; the limit is for the caller, who may cancel t.
func (c *Copy) Serve(t *loop.Thread, body []byte, h Handler) (status int, err error) {
	y := &c.x
	q := &y.req
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		stack := debug.Stack()
		if e, ok := p.(*loop.PanicError); ok { // of another thread or goroutine
			p, stack = e.Value, e.Stack
		}
		status, err = 0, &loop.PanicError{Value: p, Stack: stack}
		if p != http.ErrAbortHandler {
			s := y.c.port.server
			s.panics.Add(1)
			s.settings.Load().Logger.Error("conn: panic in a handler", "panic", p, "stack", string(stack),
				"request_id", string(q.idView), "target", string(q.head.Target.Of(q.raw)))
		}
	}()
	c.carrier, c.since = &alone{t: t, of: &c.asking}, t.Loop().Time()
	q.Thread, y.began = t, c.since
	q.body.none(y)
	q.head.Chunked = false
	if c.sends = body; len(body) > 0 {
		q.body = Body{x: y, state: bodyOpen, limit: -1}
		q.head.ContentLength = int64(len(body))
	}
	return c.run(t, h)
}

// alone is what an exchange without a client, on t, does in a Duplex, and while it drops an answer.
type alone struct {
	void
	t     *loop.Thread
	of    *asking
	spent int
}

// onePiece stands for what a piece of an answer costs, however short it is.
const onePiece = 4 << 10

func (a *alone) spend(n int) {
	if a.spent += max(n, onePiece); a.spent >= stream.TurnBudget {
		a.spent = 0
		a.of.failed = a.t.Sleep(0) // an endless answer ends when the thread is canceled
	}
}

func (a *alone) sent(n int64) int64 { return n }

func (a *alone) awaitDuplex(limit time.Duration, read bool, sources []loop.Source) error {
	if read || len(sources) == 0 { // all of the body is there
		return nil
	}
	_, err := a.t.AwaitAny(limit, sources...)
	return err
}

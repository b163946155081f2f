package conn

import (
	"sync"

	"github.com/lwango/lwango/internal/invariants"
)

// A Request and its Response belong to an exchange, which serves one request after another, of any
// client. A handler, or a goroutine, that keeps one of them and uses it later finds the exchange in
// one of two states.
//
// It rests. Then the Request is empty, what waits, reads or writes returns ErrComplete, and nothing
// that is set reaches the next request.
//
// It serves another request. That cannot be told without a cost for every request: a generation
// would have to be passed with each call. So under the invariants tag exchanges rest for long, and
// every use of one that rests panics, which names the fault. The race detector finds the same fault
// if it is a goroutine's. Under the tag a goroutine that uses the Response while its handler still
// runs, or waits, panics as well.

// resting are the exchanges that rest longest, under the invariants tag. They are made in advance,
// so that no request allocates one.
var resting struct {
	sync.Mutex
	ring []*exchange
	next int
}

const maxResting = 64

// restLong exchanges x, which rests, for another one that has rested long.
func restLong(x *exchange) *exchange {
	resting.Lock()
	defer resting.Unlock()
	if resting.ring == nil {
		resting.ring = make([]*exchange, maxResting)
		for i := range resting.ring {
			resting.ring[i] = newExchange()
		}
	}
	slot := &resting.ring[resting.next]
	resting.next = (resting.next + 1) % len(resting.ring)
	x, *slot = *slot, x
	return x
}

// live panics, under the invariants tag, if r is over.
func (r *Request) live() {
	if invariants.Enabled && r.Thread == nil {
		panic("conn: use of a Request or a Response after its handler has returned")
	}
}

// live panics, under the invariants tag, if the request is over, and as well if the caller is a
// goroutine that is none of the loop's threads: then the handler uses w at the same time, or the
// loop does. An exchange that was stranded is not the connection's any more; it is left to the
// function that has stranded it.
func (w *Response) live() {
	if invariants.Enabled && w.x != nil {
		w.x.req.live()
		if t := w.x.req.Thread; t != nil && w.x.asks == nil && recordOf(t).exchange() == w.x {
			t.Loop().Check()
		}
	}
}

// over reports whether r is over, and rests.
func (r *Request) over() bool {
	r.live()
	return r.Thread == nil
}

func (w *Response) over() bool {
	w.live()
	return w.x != nil && w.x.req.Thread == nil
}

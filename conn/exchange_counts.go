package conn

import (
	"slices"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
)

// Stats is what one loop has counted of a Server. The loop writes it, as plain words in memory that
// no other loop writes to, and whatever reads it does so on the loop.
type Stats struct {
	Accepted int64 // connections
	Requests int64 // that have begun, with those that were refused
	Ended    int64 // of these; a request whose connection was hijacked has ended, too

	FailedHandshakes int64 // of TLS, that a client had begun; not those that a stop has ended

	// Now, without the connections of Server.Detached and Server.Refusing.
	Hijacked  int64 // connections that a handler of this loop has taken over
	Lingering int64 // connections that are being closed

	// HTTP/2, now: its connections, which are among the others, those of them with streams, the
	// streams, and those of the streams that a handler has taken over, which are not among Hijacked.
	Sessions, AtWork, Streams, Tunnels int64

	// Resets are the streams that clients have taken back or made the server reset.
	Resets int64

	// Routes are the requests by the number of their counter, see RequestLayer.SetCounter, if
	// Config.Count is set.
	Routes []RouteStats
}

// RouteStats counts the requests of one route, or of none. Its size is a multiple of a
// cache line.
type RouteStats struct {
	Status [6]int64 // answers by the first digit of their status; 0: the client left before one
	Sent   int64    // bytes of the answers' bodies, before TLS; if one broke off, those acknowledged
	Got    int64    // bytes of the requests' bodies that were read

	Spent time.Duration // in handlers, their waits included
	// calls of handlers, by their time: see metrics.Bucket; not those of hijacked ones
	Times [metrics.TimeBounds + 1]int64
	Cache [numCacheUses]int64 // requests by what a cache has done with them
	_     [3]int64

	// Codes are answers by the index of their status, see StatusAt; the last: all others.
	Codes [numStatuses + 1]int64
}

// statuses are those that are counted one by one: nearly all that are registered and final.
var statuses = [numStatuses]int{
	200, 201, 202, 203, 204, 205, 206, 207, 301, 302, 303, 304, 307, 308,
	400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417,
	421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 500, 501, 502, 503, 504}

const numStatuses = 47 // so that a RouteStats ends with a cache line

// statusIndex has the index in statuses of each status below its length; numStatuses: it is none.
var statusIndex = func() (index [512]uint8) {
	for i := range index {
		index[i] = numStatuses
	}
	for i, status := range statuses {
		index[status] = uint8(i)
	}
	return index
}()

// StatusAt returns the status that Codes counts by that index; 0: all others.
func (*RouteStats) StatusAt(index int) int {
	if index < numStatuses {
		return statuses[index]
	}
	return 0
}

// answered counts an answer with that status, or, for 0, a client that has left before one.
func (p *RouteStats) answered(status int) {
	p.Status[min(max(status/100, 0), 5)]++
	switch {
	case 0 < status && status < len(statusIndex):
		p.Codes[statusIndex[status]]++
	case status != 0:
		p.Codes[numStatuses]++
	}
}

// loopStats is Stats as its loop has it.
type loopStats struct {
	_ [64]byte // no other loop writes to the same cache line, nor behind it
	Stats
	_ [64]byte
}

func (t *loopStats) copy() Stats {
	c := t.Stats
	c.Routes = slices.Clone(t.Routes)
	return c
}

// route returns the counters of a route. There are as many as the configuration has had routes.
func (t *loopStats) route(n uint32) *RouteStats {
	if int(n) >= len(t.Routes) {
		t.Routes = append(t.Routes, make([]RouteStats, int(n)+1-len(t.Routes))...)
	}
	return &t.Routes[n]
}

// SetCounter sets the number by which Stats.Routes counts the request. The numbers of a router are
// dense and begin with 1; 0 means that no route answers. The router calls it.
func (r RequestLayer) SetCounter(n uint32) { r.counter = n }

// untimed is the time of a handler that has not run, or has taken its connection over.
const untimed = -1

// count notes that the present request has ended, if that was not noted before. status is 0 if the
// client has left before an answer.
func (x *exchange) count(status int) {
	if !x.counting {
		return
	}
	x.counting = false
	x.c.port.stats.Ended++
	if x.set.Count {
		x.countRoute(status)
	}
}

// countRoute is count for the request's route.
//
//go:noinline
func (x *exchange) countRoute(status int) {
	p := x.c.port.stats.route(x.req.counter)
	p.answered(status)
	p.Sent += x.sentBody()
	p.Got += x.req.body.read
	p.Cache[x.cache]++
	if x.took >= 0 {
		p.Spent += x.took
		p.Times[metrics.Bucket(x.took)]++
	}
}

// countAnswer is count for an answer that has been given.
func (x *exchange) countAnswer() {
	status := x.resp.status
	if x.left() {
		status = 0
	}
	x.count(status)
}

// clock is a time to take differences of. It is cheaper than time.Now, which looks at two clocks.
func clock() time.Duration { return time.Since(epoch) }

package limit

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Rate is a number of requests in a time. In a file it is "10/s", "100/m" or "1000/h".
type Rate struct {
	Count int           // 1 to 1,000,000; 0: no rate
	Per   time.Duration // a second, a minute or an hour
}

const maxCount = 1e6

var units = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Rate) UnmarshalText(text []byte) error {
	count, unit, _ := strings.Cut(string(text), "/")
	n, err := strconv.ParseUint(count, 10, 32)
	per, ok := units[unit]
	if err != nil || !ok || n < 1 || n > maxCount {
		return fmt.Errorf(`expected 1 to %d requests in a second, a minute or an hour, such as `+
			`"10/s", "100/m" or "1000/h", found %q`, int(maxCount), text)
	}
	*r = Rate{int(n), per}
	return nil
}

// String returns the rate as it stands in a file.
func (r Rate) String() string {
	for unit, per := range units {
		if per == r.Per {
			return strconv.Itoa(r.Count) + "/" + unit
		}
	}
	return "0/s"
}

// each returns how many nanoseconds there are for a request.
func (r Rate) each() int64 { return int64(r.Per) / int64(r.Count) }

// zone counts the requests of many clients in little memory. For each it knows one time, by which
// all of the client's requests will be paid off if each takes the same part of a second (the
// generic cell rate algorithm of ATM). A request is refused if that lies too far ahead.
//
// The zone has a fixed number of slots, in rows of eight; a client's row is chosen by its key. A
// slot whose time has passed says nothing, and any client may take it. If there is none in its
// row, a client takes the place with the earliest time, and with it the debt. So the loss of a
// slot is never a gain: all others in its row had later times then, the earliest time of a row
// never goes back, and the client that comes again begins at that time or later. Many clients at
// once may thereby share a rate, but a client never gets more than its own.
type zone struct {
	perRequest int64 // nanoseconds for a request
	burst      int64 // and for as many as may come at once

	locks [lockCount]struct {
		sync.Mutex
		_ [56]byte // one cache line each
	}
	slots []slot
}

type slot struct {
	key    uint64
	freeAt int64 // on the caller's clock, in nanoseconds
}

const (
	rowLength = 8
	rowCount  = 1 << 14 // 131,072 slots, 2 MiB; the kernel gives the pages when they are used
	lockCount = 64
)

func newZone(r Rate, burst int) *zone {
	each := r.each()
	return makeZone(each, each*int64(burst))
}

func makeZone(each, burst int64) *zone {
	return &zone{perRequest: each, burst: burst, slots: make([]slot, rowLength*rowCount)}
}

// has reports whether a client has requests that are not paid off.
func (z *zone) has(key uint64, now int64) bool {
	row := key % rowCount
	lock := &z.locks[row%lockCount]
	lock.Lock()
	defer lock.Unlock()
	for _, p := range z.slots[row*rowLength:][:rowLength] {
		if p.key == key {
			return p.freeAt > now
		}
	}
	return false
}

// turn is what a zone says of a request.
type turn struct {
	pass bool
	wait int64 // nanoseconds, after which the request may pass, or, if it may not, come again
	owed int64 // and those after which all of the client's requests are paid off
}

// take counts a request of a client at the time now, in nanoseconds, not before 0. A request beyond
// the burst may have to wait for up to delay nanoseconds, in which its part of the burst is paid
// off. One that would have to wait longer does not count. Keys are evenly distributed. Any
// goroutine may call take.
func (z *zone) take(key uint64, now, delay int64) turn {
	p, lock := z.find(key)
	defer lock.Unlock()
	paid := max(p.freeAt, now) + z.perRequest
	wait := max(paid-z.burst-now, 0)
	if wait > delay {
		return turn{wait: wait - delay, owed: paid - z.perRequest - now}
	}
	p.key, p.freeAt = key, paid
	return turn{pass: true, wait: wait, owed: paid - now}
}

// add counts n requests of a client that have passed elsewhere. Its debt becomes no greater than
// that of a burst.
func (z *zone) add(key uint64, n int64, now int64) {
	p, lock := z.find(key)
	defer lock.Unlock()
	if n > z.burst/z.perRequest {
		n = z.burst / z.perRequest
	}
	from := max(p.freeAt, now)
	p.key, p.freeAt = key, max(from, min(from+n*z.perRequest, now+z.burst))
}

// find returns the slot of a client, or the one whose place it takes, and its lock, which is held.
func (z *zone) find(key uint64) (*slot, *sync.Mutex) {
	row := key % rowCount
	lock := &z.locks[row%lockCount]
	lock.Lock()
	slots := z.slots[row*rowLength:][:rowLength]
	p := &slots[0]
	for i := range slots {
		if slots[i].key == key {
			p = &slots[i]
			break
		}
		if slots[i].freeAt < p.freeAt {
			p = &slots[i]
		}
	}
	return p, &lock.Mutex
}

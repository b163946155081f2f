package conn

import (
	"strings"
	"sync/atomic"
	"time"
)

// habits decides which requests an http.Handler serves in place, on their loop (see
// loop.ThreadLayer.RunInPlace), and which on goroutines. It goes by how similar requests have done,
// see habit. It is a hint: what is alike by method and path shares a habit, and so do a few that
// are not.
type habits [64]habit

// habit is what is remembered of such requests.
//
// Only in place can be seen how long a handler takes: on goroutines handlers wait for each other.
// So after a number of requests they are tried in place, with a credit for those that are not short
// after all. Each answer at once adds to it. When it is used up, they have goroutines again, and
// the next try comes after twice as many requests. A try begins with a credit, since the first may
// have to share something, such as connections of a database, with those still on goroutines; and
// on a busy machine any may be interrupted.
type habit struct {
	credit atomic.Int32 // 0: requests have goroutines
	passed atomic.Int32 // requests on goroutines since it is 0
	needed atomic.Int32 // of those, before the next try in place; 0: fewPassed
}

const (
	shortAnswer = 100 * time.Microsecond // a handler that takes longer may have waited
	longAnswer  = 5 * time.Millisecond   // a handler that takes longer is not worth a try

	// What answers in place add to the credit. A goroutine costs some 10 µs more than a place, and a
	// loop waits for a handler that is late for 1 or 2 ms.
	atOnce = 1
	slow   = -10
	late   = -100

	firstCredit = 100
	maxCredit   = 200

	fewPassed  = 32
	manyPassed = 8192

	pathStart = 64 // bytes of a path that are looked at
)

// of returns the habit of requests with such a path. Segments with a digit count for nothing, since
// they are mostly the names of things.
func (h *habits) of(method, path string) *habit {
	sum := uint32(2166136261) // FNV-1a
	add := func(s string) {
		for i := range len(s) {
			sum = (sum ^ uint32(s[i])) * 16777619
		}
	}
	add(method)
	for segment := range strings.SplitSeq(path[:min(len(path), pathStart)], "/") {
		if !strings.ContainsAny(segment, "0123456789") {
			add("/")
			add(segment)
		}
	}
	return &h[(sum>>24^sum>>12^sum)%uint32(len(h))]
}

// short reports whether an answer is expected at once.
func (h *habit) short() bool { return h.credit.Load() > 0 }

func (h *habit) enough() int32 { return max(h.needed.Load(), fewPassed) }

// note notes how long a handler has taken on a goroutine, and whether it has waited for its thread.
func (h *habit) note(took time.Duration, waited bool) {
	if took <= longAnswer && !waited && !h.short() && h.passed.Add(1) >= h.enough() {
		h.passed.Store(0)
		h.credit.Store(firstCredit)
	}
}

// noteInPlace notes how long a loop has waited for a handler, which has returned or is late.
func (h *habit) noteInPlace(took time.Duration, returned bool) {
	change := int32(atOnce)
	switch {
	case !h.short():
		return // another loop has used the credit up
	case !returned:
		change = late
	case took > shortAnswer:
		change = slow
	}
	switch credit := h.credit.Add(change); {
	case credit <= 0:
		h.credit.Store(0)
		if credit > change { // with several loops, the first to see it
			h.needed.Store(min(2*h.enough(), manyPassed))
		}
	case credit > maxCredit:
		h.credit.Store(maxCredit)
		if h.needed.Load() > 0 {
			h.needed.Store(0)
		}
	}
}

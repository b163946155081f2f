package conn

import (
	"strings"
	"sync/atomic"
	"time"
)

// habits remembers which requests an http.Handler answers at once. Those run in place, on their
// loop (see loop.RunInPlace), and others on goroutines. It is a hint: what is alike by method and
// path shares a habit, and so do a few that are not.
type habits [256]habit

// habit is what is remembered of such requests.
type habit struct {
	proofs atomic.Int32 // how many have to be answered at once before they run in place; 0: they do
	needed atomic.Int32 // how many that were, when the loop last went on without one
}

const (
	shortAnswer = 100 * time.Microsecond // a handler that takes longer may have waited
	fewProofs   = 32
	manyProofs  = 8192
	pathStart   = 64 // bytes of a path that are looked at
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
func (h *habit) short() bool { return h.proofs.Load() == 0 }

// slow notes that a loop goes on without a handler, for which it has waited in vain. More proofs
// are needed each time, so that loops do not wait often for what is only mostly short.
func (h *habit) slow() {
	n := min(max(2*h.needed.Load(), fewProofs), manyProofs)
	h.needed.Store(n)
	h.proofs.Store(n)
}

// note notes how long a handler has taken, and whether it has waited for its thread.
func (h *habit) note(took time.Duration, waited bool) {
	if took > shortAnswer || waited {
		h.proofs.Store(max(h.needed.Load(), fewProofs))
	} else if n := h.proofs.Load(); n > 0 {
		h.proofs.CompareAndSwap(n, n-1)
	}
}

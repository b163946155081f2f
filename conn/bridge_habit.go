package conn

import (
	"strings"
	"sync/atomic"
	"time"
)

// habits remembers which requests an http.Handler answers at once. Those run in place, on their
// loop (see loop.ThreadLayer.RunInPlace), and others on goroutines. It is a hint: what is alike
// by method and path shares a habit, and so do a few that are not.
type habits [64]habit

// habit is what is remembered of such requests.
type habit struct {
	proofs atomic.Int32 // answers at once, since the last one that was not
	needed atomic.Int32 // of those, before requests run in place; 0: fewProofs
}

const (
	shortAnswer = 100 * time.Microsecond // a handler that takes longer may have waited
	fewProofs   = 32
	manyProofs  = 8192
	forgiven    = 8192 // answers at once in place after which fewer proofs are needed
	pathStart   = 64   // bytes of a path that are looked at
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
func (h *habit) short() bool { return h.proofs.Load() >= h.enough() }

func (h *habit) enough() int32 { return max(h.needed.Load(), fewProofs) }

// note notes how long a handler has taken on a goroutine, and whether it has waited for its thread.
func (h *habit) note(took time.Duration, waited bool) {
	if took > shortAnswer || waited {
		h.proofs.Store(0)
		return
	}
	if n, enough := h.proofs.Add(1), h.enough(); n >= enough+forgiven {
		h.needed.Store(enough / 2)
		h.proofs.Store(enough)
	}
}

// noteInPlace notes how long a loop has waited for a handler, which has returned or is late. If it
// was not short, more proofs are needed from now on, so that loops do not wait often for what is
// only mostly short.
func (h *habit) noteInPlace(took time.Duration, returned bool) {
	if returned && took <= shortAnswer {
		h.note(took, false)
		return
	}
	h.needed.Store(min(2*h.enough(), manyProofs))
	h.proofs.Store(0)
}

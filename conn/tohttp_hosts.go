package conn

import (
	"log/slog"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

// hosts are the loops of handlers under net/http.
var hosts hostSet

type hostSet struct {
	mu   sync.Mutex
	all  []*host // nil: not started yet
	next int
}

// host is a loop that ends when it was not used for a while.
type host struct {
	loop *loop.Loop

	// The loop's.
	used time.Time
	kept bool // a thread keeps the loop going
}

const (
	hostIdle = time.Second            // for so long a loop goes on without requests
	heldUp   = 100 * time.Millisecond // a handler that holds its loop for longer is logged
)

// post calls f on a loop.
func (s *hostSet) post(f func(l *loop.Loop)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make([]*host, loop.Reserve(0))
	}
	s.next = (s.next + 1) % len(s.all)
	if h := s.all[s.next]; h != nil && h.loop.Post(func() { h.enter(f) }) == nil {
		return nil
	}
	loop.Reserve(1)
	l, err := loop.New(loop.Options{})
	if err != nil {
		return err
	}
	h := &host{loop: l}
	s.all[s.next] = h
	h.enter(f) // the loop does not run yet
	dog := loop.NewWatchdog(slog.Default(), heldUp, l)
	go func() {
		defer dog.Close()
		if err := l.Run(); err != nil {
			slog.Error("conn: a loop for handlers under net/http has failed", "error", err)
		}
	}()
	return nil
}

// enter calls f, and keeps the loop going.
func (h *host) enter(f func(l *loop.Loop)) {
	h.used = h.loop.Time()
	if !h.kept {
		h.kept = true
		h.loop.Go(h.keep)
	}
	f(h.loop)
}

// keep ends when no request has come for a while.
func (h *host) keep(t *loop.Thread) {
	for t.Sleep(hostIdle) == nil && h.loop.Time().Sub(h.used) < hostIdle {
	}
	h.kept = false
}

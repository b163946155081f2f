package loop_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// locks are ways to hold up a loop, with calls of package sync and the like.
type locks struct {
	*hold
	rw    sync.RWMutex
	group sync.WaitGroup
	own   loop.Mutex
}

// handle waits, as another call of it does that blocks its loop.
func (h *hold) handle(th *loop.Thread, block func()) {
	if block == nil {
		_ = th.Sleep(time.Hour)
	} else {
		block()
	}
}

// TestWatchdogOnLocks: of a loop that a lock or a WaitGroup blocks, the report says what to use in
// their place, and which handlers wait meanwhile, those of the same function first. It runs alone,
// since the report has the threads of all loops.
func TestWatchdogOnLocks(t *testing.T) {
	const limit = 20 * time.Millisecond
	for name, row := range map[string]struct {
		begin   func(h *locks) (block, end func())
		instead string // "": nothing
	}{
		"Mutex": {func(h *locks) (block, end func()) { return h.mu.Lock, h.mu.Unlock }, "use loop.Mutex"},
		"RWMutex": {func(h *locks) (block, end func()) {
			h.rw.RLock()
			return h.rw.Lock, func() { h.rw.RUnlock() }
		}, "use loop.Mutex"},
		"read": {func(h *locks) (block, end func()) {
			h.rw.Lock()
			return h.rw.RLock, h.rw.Unlock
		}, "use loop.Mutex"},
		"WaitGroup": {func(h *locks) (block, end func()) {
			h.group.Add(1)
			return h.group.Wait, h.group.Done
		}, "use req.Go and req.Join"},
		"Lock(nil)": {func(h *locks) (block, end func()) {
			_ = h.own.Lock(nil, -1)
			return func() { _ = h.own.Lock(nil, -1) }, h.own.Unlock
		}, "give it the thread"},
		"something else": {func(h *locks) (block, end func()) {
			return h.receiving, func() {}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				w := newWatch(limit, l)
				h := &locks{hold: newHold()}
				block, end := row.begin(h)
				l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
				l.Go(func(th *loop.Thread) { h.handle(th, nil) })
				wait := start(t, l)
				on(t, l, func() {})
				on(t, l, func() { l.Go(func(th *loop.Thread) { h.handle(th, block) }) })
				r := w.next(t)
				instead, suspended := r["instead"].String(), r["suspended"].String()
				if row.instead == "" {
					if _, ok := r["instead"]; ok {
						t.Errorf("hint %q", instead)
					}
				} else if first, rest, _ := strings.Cut(suspended, "\n"); len(instead) > 256 ||
					!strings.Contains(instead, row.instead) ||
					!strings.Contains(first, "(*hold).handle ") ||
					!strings.HasSuffix(first, " in github.com/lwango/lwango/loop.(*Thread).Sleep") ||
					!strings.Contains(rest, "TestWatchdogOnLocks") {
					t.Errorf("hint %q, suspended %q\n%v", instead, suspended, r["stack"])
				}
				end()
				close(h.free)
				l.Stop(0)
				wait()
				w.Close()
			})
		})
	}
}

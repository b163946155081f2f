package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// notifiee is a waker that can handle notifications on the loop.
type notifiee struct {
	*waker
	handle func() bool
}

func (p *notifiee) Notified(*loop.Descriptor) bool { return p.handle() }

// broadcast notifies threads together.
func broadcast(t *testing.T, l *loop.Loop, all ...*loop.Thread) {
	on(t, l, func() {
		(&loop.Broadcast{Next: func() (next *loop.Thread) {
			if len(all) > 0 {
				next, all = all[0], all[1:]
			}
			return next
		}}).Begin(l)
	})
}

// TestNotified: an idle Task handles a Broadcast on the loop, and one that cannot, or that is
// not idle, is run.
func TestNotified(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, l *loop.Loop) {
		handled, done := 0, true
		p := &notifiee{newWaker(), func() bool { handled++; return done }}
		held := l.Go(func(th *loop.Thread) { _, _ = th.AwaitAny(-1, l.Stopped()) })
		l.Layer().Begin(&p.Thread, p)
		wait := start(t, l)
		p.next(t, loop.ByEvent)
		broadcast(t, l, &p.Thread, held, &p.Thread)
		on(t, l, func() {})
		on(t, l, func() {
			if done = false; handled != 2 || len(p.runs) > 0 {
				t.Errorf("handled %d times, run %d times", handled, len(p.runs))
			}
		})
		broadcast(t, l, &p.Thread, &p.Thread) // the second finds it queued
		p.next(t, loop.ByNotify)
		on(t, l, func() {
			if handled != 3 {
				t.Errorf("handled %d times", handled)
			}
		})
		p.ignores = true
		loop.Notify(&p.Thread)
		p.next(t, loop.ByNotify)
		broadcast(t, l, &p.Thread)
		on(t, l, func() {})
		on(t, l, func() {
			if handled != 3 || len(p.runs) > 0 {
				t.Error("run on the loop without WakeOnNotify")
			}
		})
		l.Stop(time.Second)
		p.over(t)
		wait()
	})
}

// TestNotifiedTakesTurns: thousands of Tasks that handle it on the loop hold up other threads no
// longer than a share of a turn.
func TestNotifiedTakesTurns(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const (
			many    = 500
			toil    = 20 * time.Microsecond
			perTurn = int(time.Millisecond/toil) + 32 // and what is not measured of a share
		)
		handled := 0
		var all []*loop.Thread
		p := &notifiee{newWaker(), func() bool {
			handled++
			for begin := time.Now(); time.Since(begin) < toil; {
			}
			return true
		}}
		for range many {
			all = append(all, &p.Thread)
		}
		l.Layer().Begin(&p.Thread, p)
		wait := start(t, l)
		p.next(t, loop.ByEvent)
		broadcast(t, l, all...)
		seen := make(chan struct{})
		on(t, l, func() {
			l.Go(func(th *loop.Thread) {
				for last := handled; handled < many; last = handled {
					if th.Yield(); handled-last > perTurn {
						t.Errorf("%d between two turns of a thread", handled-last)
					}
				}
				close(seen)
			})
		})
		<-seen
		l.Stop(time.Second)
		p.next(t, loop.ByStop)
		p.over(t)
		wait()
	})
}

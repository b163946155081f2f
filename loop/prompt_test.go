package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// prompter is a waker that can see to notifications on the loop.
type prompter struct {
	*waker
	prompt func() bool
}

func (p *prompter) Prompt(*loop.Descriptor) bool { return p.prompt() }

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

// TestPrompt: a Broadcast has an idle Task see to it on the loop, and one that cannot, or that is
// not idle, is run.
func TestPrompt(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		prompted, done := 0, true
		p := &prompter{newWaker(), func() bool { prompted++; return done }}
		held := l.Go(func(th *loop.Thread) { _, _ = th.AwaitAny(-1, l.Stopped()) })
		l.Begin(&p.Thread, p)
		wait := start(t, l)
		p.next(t, loop.ByEvent)
		broadcast(t, l, &p.Thread, held, &p.Thread)
		on(t, l, func() {})
		on(t, l, func() {
			if done = false; prompted != 2 || len(p.runs) > 0 {
				t.Errorf("prompted %d times, run %d times", prompted, len(p.runs))
			}
		})
		broadcast(t, l, &p.Thread, &p.Thread) // the second finds it queued
		p.next(t, loop.ByNotice)
		on(t, l, func() {
			if prompted != 3 {
				t.Errorf("prompted %d times", prompted)
			}
		})
		p.ignores = true
		loop.Notify(&p.Thread)
		p.next(t, loop.ByNotice)
		broadcast(t, l, &p.Thread)
		on(t, l, func() {})
		on(t, l, func() {
			if prompted != 3 || len(p.runs) > 0 {
				t.Error("run on the loop without WakeOnNotify")
			}
		})
		l.Stop(time.Second)
		p.over(t)
		wait()
	})
}

// TestPromptsTakeTurns: thousands that see to it on the loop hold up other threads no longer than a
// share of a turn.
func TestPromptsTakeTurns(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const (
			many    = 500
			toil    = 20 * time.Microsecond
			perTurn = int(time.Millisecond/toil) + 32 // and what is not measured of a share
		)
		prompted := 0
		var all []*loop.Thread
		p := &prompter{newWaker(), func() bool {
			prompted++
			for begin := time.Now(); time.Since(begin) < toil; {
			}
			return true
		}}
		for range many {
			all = append(all, &p.Thread)
		}
		l.Begin(&p.Thread, p)
		wait := start(t, l)
		p.next(t, loop.ByEvent)
		broadcast(t, l, all...)
		seen := make(chan struct{})
		on(t, l, func() {
			l.Go(func(th *loop.Thread) {
				for last := prompted; prompted < many; last = prompted {
					if th.Yield(); prompted-last > perTurn {
						t.Errorf("%d between two turns of a thread", prompted-last)
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

package loop_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// TestBriefWaits: a loop whose waits are short does not tell the scheduler of them, until one is long. Whoever stops the
// world does not wait for it.
func TestBriefWaits(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		var end loop.Promise[int]
		l.Go(func(th *loop.Thread) { _, _ = end.Await(th, -1) })
		wait := start(t, l)
		brief := func() bool {
			answer := make(chan bool, 1)
			if err := l.Post(func() { answer <- loop.Brief(l) }); err != nil {
				t.Fatal(err)
			}
			return <-answer
		}
		until := func(what string, pause time.Duration, is func() bool) {
			t.Helper()
			for limit := time.Now().Add(20 * time.Second); !is(); {
				if time.Now().After(limit) {
					t.Fatal("does not come about: ", what)
				}
				// On its processor: who sleeps for so short a time wakes when he likes.
				for began := time.Now(); time.Since(began) < pause; {
					runtime.Gosched()
				}
			}
		}
		for range 3 {
			until("short waits", 100*time.Microsecond, brief)
			runtime.GC()
			until("a long wait", 3*time.Millisecond, func() bool { return !brief() })
		}
		end.Resolve(0)
		wait()
	})
}

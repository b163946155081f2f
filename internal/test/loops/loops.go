// Package loops runs loops for as long as a test runs.
package loops

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/slots"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/loop"
)

// Loops are loops that run, each on a goroutine of its own.
type Loops struct {
	All    []*loop.Loop
	Panics *logtext.Panics // that the loops and what runs on them have logged

	t       testing.TB
	once    sync.Once
	running sync.WaitGroup
}

// Start makes the loops of a mode, calls begin for each of them, and then runs them until the test
// ends or Stop is called. Without begin they run although they have nothing to do. A nil logger is
// the default one. A panic fails the test, unless the test expects it.
func Start(t testing.TB, m modes.Mode, logger *slog.Logger, begin func(l *loop.Loop)) *Loops {
	t.Helper()
	logger, panics := logtext.Watch(t, logger)
	ls := &Loops{Panics: panics, t: t}
	for range m.Loops {
		l := must.Get(loop.New(loop.Options{Handoff: m.Handoff, Logger: logger}))(t)
		if begin == nil {
			l.Go(func(th *loop.Thread) { _, _ = th.AwaitAny(-1, l.Stopped()) })
		} else {
			begin(l)
		}
		ls.All = append(ls.All, l)
	}
	for _, l := range ls.All {
		ls.running.Go(func() {
			if err := l.Run(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { ls.Stop(0) })
	return ls
}

// Stop stops the loops and waits for them, once.
func (ls *Loops) Stop(grace time.Duration) {
	ls.once.Do(func() {
		for _, l := range ls.All {
			l.Stop(grace)
		}
		ls.running.Wait()
	})
}

// On calls f on a loop and waits for it.
func On(t testing.TB, l *loop.Loop, f func(l *loop.Loop)) {
	t.Helper()
	done := make(chan struct{})
	must.Do(t, l.Post(func() { f(l); close(done) }))
	<-done
}

// Settle returns when the loops have acted on everything that had reached their sockets before the
// call: a first turn may have been past its events already, a second one is not, and a third one is
// for what was posted meanwhile.
func Settle(t testing.TB, all ...*loop.Loop) {
	t.Helper()
	for range 3 {
		for _, l := range all {
			On(t, l, func(*loop.Loop) {})
		}
	}
}

// On calls f on the first loop and waits for it.
func (ls *Loops) On(f func(l *loop.Loop)) {
	ls.t.Helper()
	On(ls.t, ls.All[0], f)
}

// Go starts f as a thread of the i-th loop, counted round and round.
func (ls *Loops) Go(i int, f func(th *loop.Thread)) {
	ls.t.Helper()
	l := ls.All[i%len(ls.All)]
	if err := l.Post(func() { l.Go(f) }); err != nil {
		ls.t.Fatal(err)
	}
}

// Settle is the function Settle for all of ls.
func (ls *Loops) Settle() {
	ls.t.Helper()
	Settle(ls.t, ls.All...)
}

// Settled waits until cond, called on the first loop, is true.
func (ls *Loops) Settled(what string, cond func(l *loop.Loop) bool) {
	ls.t.Helper()
	wait.Until(ls.t, what, func() (ok bool) {
		ls.t.Helper()
		ls.On(func(l *loop.Loop) { ok = cond(l) })
		return ok
	})
}

// Skip waits until the threads, and the goroutines of TLS handshakes, have done all they can do
// without further input, and then puts the clocks of the loops forward by d. When it returns, the
// timers whose time has come have run.
func Skip(t testing.TB, d time.Duration, all ...*loop.Loop) {
	t.Helper()
	before := int64(-1)
	wait.Until(t, "threads that only wait", func() bool {
		t.Helper()
		working := slots.Working(handshake.Slots)
		Settle(t, all...)
		now := resumes(t, all)
		done := !working && now == before
		before = now
		return done
	})
	for _, l := range all {
		On(t, l, func(l *loop.Loop) { l.Layer().AdvanceClock(d) })
	}
	Settle(t, all...)
}

// resumes returns how many times a thread has become the running one.
func resumes(t testing.TB, all []*loop.Loop) (n int64) {
	t.Helper()
	for _, l := range all {
		On(t, l, func(l *loop.Loop) { n += l.Stats().Resumes })
	}
	return n
}

// Skip is the function Skip for all of ls.
func (ls *Loops) Skip(d time.Duration) {
	ls.t.Helper()
	Skip(ls.t, d, ls.All...)
}

// Run runs f as a thread of a loop of its own, and returns when that has nothing left to do.
func Run(t testing.TB, f func(th *loop.Thread)) {
	t.Helper()
	l := must.Get(loop.New(loop.Options{}))(t)
	l.Go(f)
	must.Do(t, l.Run())
}

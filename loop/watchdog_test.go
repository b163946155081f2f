package loop_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// report is what the watchdog has logged.
type report map[string]slog.Value

// reports is a log that passes on what the watchdog says about functions of this file. On a busy
// machine, loops that no function holds may come late as well, and then it reports them, too.
type reports chan report

func (r reports) Enabled(context.Context, slog.Level) bool { return true }
func (r reports) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r reports) WithGroup(string) slog.Handler            { return r }
func (r reports) Handle(_ context.Context, rec slog.Record) error {
	rep := report{"": slog.StringValue(rec.Level.String() + " " + rec.Message)}
	rec.Attrs(func(a slog.Attr) bool {
		rep[a.Key] = a.Value
		return true
	})
	if strings.Contains(rep["stack"].String(), "(*hold).") {
		r <- rep
	}
	return nil
}

// watch is a watchdog under test: its reports and its clock, which runs as the real one does but
// can be put forward.
type watch struct {
	*loop.Watchdog
	reports
	checks atomic.Int64
	ahead  atomic.Int64
}

func newWatch(limit time.Duration, loops ...*loop.Loop) *watch {
	w := &watch{reports: make(reports, 100)}
	w.Watchdog = loop.NewWatchdogAt(slog.New(w.reports), func() time.Time {
		w.checks.Add(1)
		return time.Now().Add(time.Duration(w.ahead.Load()))
	}, limit, loops...)
	return w
}

// next waits for a report.
func (w *watch) next(t *testing.T) report {
	t.Helper()
	select {
	case r := <-w.reports:
		return r
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is reported")
		return nil
	}
}

// none fails if there is a report.
func (w *watch) none(t *testing.T, when string) {
	t.Helper()
	select {
	case r := <-w.reports:
		t.Errorf("%s: reported %v", when, r)
	default:
	}
}

// noticed waits until whatever has begun by now must have been reported, if it is to be at all: the
// check under way, one that marks, two that find the mark, of which the second reports, perhaps one
// that came early, and the beginning of the next.
func (w *watch) noticed() {
	for until := w.checks.Load() + 6; w.checks.Load() < until; {
		time.Sleep(100 * time.Microsecond)
	}
}

// hold is how a function can hold its loop until it is released.
type hold struct {
	free    chan struct{}
	mu      sync.Mutex
	waiting atomic.Bool
}

func newHold() *hold {
	h := &hold{free: make(chan struct{})}
	h.mu.Lock()
	h.waiting.Store(true)
	return h
}

func (h *hold) release() {
	h.waiting.Store(false)
	h.mu.Unlock()
	close(h.free)
}

func (h *hold) spinning() {
	for h.waiting.Load() {
	}
}

func (h *hold) sleeping() {
	for h.waiting.Load() {
		time.Sleep(time.Millisecond)
	}
}

func (h *hold) locking() {
	h.mu.Lock()
	defer h.mu.Unlock()
}

func (h *hold) receiving() { <-h.free }

func (h *hold) recursing(depth int) {
	if depth == 0 {
		h.receiving()
		return
	}
	h.recursing(depth - 1)
	runtime.KeepAlive(depth) // not a tail call
}

// busy takes its time without waiting for anything.
func (*hold) busy(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

// Threads that take their time together, or wait on the loop, do not hold it.
func TestWatchdogLeavesOthersAlone(t *testing.T) {
	const limit, short = 600 * time.Millisecond, 50 * time.Millisecond // longer on a busy machine
	var loops []*loop.Loop
	for _, handoff := range []coro.Handoff{coro.Channel, coro.Direct} {
		l := must.Get(loop.New(loop.Options{Handoff: handoff}))(t)
		loops = append(loops, l)
	}
	w := newWatch(limit, loops...)
	var h hold
	var waits []func()
	for _, l := range loops {
		l.Go(func(th *loop.Thread) {
			h.busy(short)
			_ = th.Sleep(limit)
			h.busy(short)
		})
		l.Go(func(th *loop.Thread) {
			for range 3 {
				h.busy(short)
				th.Yield()
			}
		})
		for range 20 { // in the same turn
			l.Go(func(th *loop.Thread) { h.busy(short) })
		}
		waits = append(waits, start(t, l))
	}
	for _, wait := range waits {
		wait()
	}
	w.Close()
	w.none(t, "none was too long")
}

// held has a thread of l hold it until the watchdog must have noticed and checked several times
// more, and returns how often it has reported.
func (w *watch) held(t *testing.T, l *loop.Loop, f func(h *hold)) int {
	t.Helper()
	h := newHold()
	begun := make(chan struct{})
	on(t, l, func() {
		l.Go(func(*loop.Thread) {
			close(begun)
			f(h)
		})
	})
	<-begun
	w.noticed()
	w.noticed()
	h.release()
	on(t, l, func() {})
	n := len(w.reports)
	for range n {
		<-w.reports
	}
	return n
}

func TestWatchdogRepeatsAPlaceAfterAMinuteOnly(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		w := newWatch(2*time.Millisecond, l)
		l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
		wait := start(t, l)
		for i, step := range []struct {
			f     func(h *hold)
			after time.Duration
			want  int
		}{
			{(*hold).receiving, 0, 1},
			{(*hold).receiving, 0, 0},
			{(*hold).locking, 0, 1},
			{(*hold).receiving, 30 * time.Second, 0},
			{(*hold).receiving, 30 * time.Second, 1},
			{(*hold).locking, 0, 1},
			{(*hold).locking, 0, 0},
		} {
			w.ahead.Add(int64(step.after))
			if got := w.held(t, l, step.f); got != step.want {
				t.Errorf("step %d: %d reports, want %d", i, got, step.want)
			}
		}
		l.Stop(0)
		wait()
		w.Close()
	})
}

// One stall at two places is reported at both.
func TestWatchdogFollowsAStall(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		w := newWatch(2*time.Millisecond, l)
		first, second := newHold(), newHold()
		l.Go(func(*loop.Thread) {
			first.receiving()
			second.locking()
		})
		wait := start(t, l)
		if r := w.next(t); !strings.Contains(r["stack"].String(), "receiving") {
			t.Errorf("first reported %v", r)
		}
		first.release()
		if r := w.next(t); !strings.Contains(r["stack"].String(), "locking") {
			t.Errorf("then reported %v", r)
		}
		second.release()
		wait()
		w.Close()
	})
}

// A loop that is held after any sleep, however short, is noticed.
func TestWatchdogMissesNoWakeUp(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		w := newWatch(time.Millisecond, l)
		l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
		l.Go(func(th *loop.Thread) {
			for !l.Stopping() {
				_ = th.Sleep(3 * time.Millisecond)
			}
		})
		wait := start(t, l)
		for i := range 100 {
			w.ahead.Add(int64(time.Minute))
			time.Sleep(time.Duration(i%20) * 100 * time.Microsecond)
			h := newHold()
			must.Do(t, l.Post(h.receiving))
			w.next(t)
			h.release()
		}
		l.Stop(0)
		wait()
		w.Close()
	})
}

// While all loops sleep, the watchdog does not check them.
func TestWatchdogSleepsWithItsLoops(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const limit = time.Millisecond
		w := newWatch(limit, l)
		l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
		wait := start(t, l)
		for range 5 {
			// When it is woken, two or three more until all sleep; and perhaps one that was due. On a busy
			// machine the loop falls asleep late, and is checked until then.
			const most = 5
			n := int64(most + 1)
			for try := 0; n > most && try < 1000; try++ {
				before := w.checks.Load()
				on(t, l, func() {})
				time.Sleep(20 * limit)
				n = w.checks.Load() - before
			}
			if n > most {
				t.Errorf("%d checks at a loop that sleeps", n)
			}
		}
		l.Stop(0)
		wait()
		w.Close()
	})
}

func TestWatchdogLimitChanges(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		w := newWatch(0, l)
		before := w.checks.Load()
		l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
		wait := start(t, l)
		h := newHold()
		must.Do(t, l.Post(h.receiving))
		time.Sleep(20 * time.Millisecond)
		if n := w.checks.Load() - before; n != 0 {
			t.Errorf("%d checks without a limit", n)
		}
		w.SetLimit(time.Microsecond)
		if got := w.next(t)["limit"].Duration(); got != time.Millisecond {
			t.Errorf("limit %v", got)
		}
		h.release()

		w.SetLimit(0)
		h = newHold()
		must.Do(t, l.Post(h.locking))
		before = w.checks.Load()
		time.Sleep(20 * time.Millisecond)
		if n := w.checks.Load() - before; n > 1 {
			t.Errorf("%d checks without a limit", n)
		}
		w.none(t, "off")
		h.release()
		l.Stop(0)
		wait()
		w.Close()
	})
}

// A second watchdog takes over, and is not misled by the marks of the first.
func TestWatchdogFollowsAnother(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
		wait := start(t, l)
		first := newWatch(time.Millisecond, l)
		h := newHold()
		must.Do(t, l.Post(h.receiving))
		first.next(t)
		first.Close()
		second := newWatch(time.Millisecond, l)
		if d := second.next(t)["held"].Duration(); d > time.Minute {
			t.Errorf("held %v", d)
		}
		h.release()
		l.Stop(0)
		wait()
		second.Close()
	})
}

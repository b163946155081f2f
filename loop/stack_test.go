package loop_test

import (
	"context"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// The stack that is logged is that of the coroutine or function that holds the loop, whatever else
// there is.
func TestWatchdogNamesTheCode(t *testing.T) {
	const limit = 20 * time.Millisecond
	inThread := func(f func(h *hold)) func(l *loop.Loop, h *hold) {
		return func(l *loop.Loop, h *hold) { l.Go(func(*loop.Thread) { f(h) }) }
	}
	tests := []struct {
		name, function string
		frames         int // that the stack has at least
		begin          func(l *loop.Loop, h *hold)
	}{
		{"spin", "spinning", 5, inThread((*hold).spinning)},
		{"sleep", "sleeping", 5, inThread((*hold).sleeping)},
		{"mutex", "locking", 5, inThread((*hold).locking)},
		{"channel", "receiving", 5, inThread((*hold).receiving)},
		{"posted", "receiving", 3, func(l *loop.Loop, h *hold) { _ = l.Post(h.receiving) }},
		{"deep", "receiving", 32, inThread(func(h *hold) { h.recursing(500) })},
		{"its own labels", "receiving", 5, inThread(func(h *hold) {
			pprof.Do(context.Background(), pprof.Labels("k", "v"), func(context.Context) { h.receiving() })
		})},
		{"after it has waited", "receiving", 5, func(l *loop.Loop, h *hold) {
			l.Go(func(th *loop.Thread) {
				for range 3 {
					th.Yield()
					_ = th.Sleep(time.Millisecond)
				}
				h.receiving()
			})
		}},
		{"beside its own goroutine", "receiving", 5, inThread(func(h *hold) {
			begun := make(chan struct{})
			go func() { close(begun); h.sleeping() }()
			<-begun
			h.receiving()
		})},
		{"last of its coroutine's tasks", "receiving", 5, func(l *loop.Loop, h *hold) {
			l.Go(func(*loop.Thread) {})
			l.Go(func(*loop.Thread) {})
			l.Go(func(*loop.Thread) { h.receiving() })
		}},
		{"deferred call of a killed one", "receiving", 5, func(l *loop.Loop, h *hold) {
			l.Go(func(th *loop.Thread) {
				th.Defer(h.receiving)
				l.Stop(0)
				_ = th.Sleep(time.Hour)
			})
		}},
		{"beside late functions in place", "receiving", 5, func(l *loop.Loop, h *hold) {
			l.Go(func(th *loop.Thread) {
				late := make(chan struct{})
				defer close(late)
				for range 3 {
					for !th.Layer().MayRunInPlace() {
						th.Yield()
					}
					th.Layer().RunInPlace(func(p loop.InPlace) { p.Leave(); <-late })
				}
				h.receiving()
			})
		}},
		{"one processor", "spinning", 5, inThread(func(h *hold) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			h.spinning()
		})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			run(t, func(t *testing.T, l *loop.Loop) {
				// Others: they wait as they should, on this loop and another, and are not to be
				// taken for the code that holds up the loop.
				other := must.Get(loop.New(loop.Options{}))(t)
				w := newWatch(limit, other, l)
				for _, l := range []*loop.Loop{l, other} {
					l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
					l.Go(func(th *loop.Thread) { _ = th.Sleep(time.Hour) })
				}
				wait, waitOther := start(t, l), start(t, other)
				on(t, l, func() {})

				h := newHold()
				must.Do(t, l.Post(func() { test.begin(l, h) }))
				r := w.next(t)
				for s := r["stack"].String(); strings.Contains(s, "recursing") &&
					!strings.Contains(s, "receiving"); {
					r = w.next(t) // caught on its way down: that took a busy machine so long
					s = r["stack"].String()
				}
				if got := r[""].String(); got != "WARN loop: held up" {
					t.Errorf("level and message %q", got)
				}
				if d := r["held"].Duration(); d < limit || r["limit"].Duration() != limit {
					t.Errorf("held %v, limit %v", d, r["limit"])
				}
				lines := strings.Split(r["stack"].String(), "\n")
				if n := len(lines); n <= test.frames || n > 33 {
					t.Errorf("%d lines", n)
				}
				// The first line of this file is the place, and the function is in it.
				for _, line := range lines {
					if function, place, _ := strings.Cut(line, " "); strings.Contains(place, "watchdog_test.go:") {
						if !strings.HasSuffix(function, "(*hold)."+test.function) || place != r["place"].String() {
							t.Errorf("%s at %s, place %v", function, place, r["place"])
						}
						break
					}
				}
				if t.Failed() || !strings.Contains(r["stack"].String(), test.function) {
					t.Errorf("want %s:\n%v", test.function, r["stack"])
				}

				h.release()
				l.Stop(0)
				other.Stop(0)
				wait()
				waitOther()
				w.Close()
				w.none(t, "in the end")
			})
		})
	}
}

func TestWatchdogPlaces(t *testing.T) {
	for _, test := range []struct{ want, stack string }{
		{"main.main.func1", "sync.(*Mutex).Lock main.main.func1 runtime.goexit"},
		{"example.org/app.(*T).Do", "net/http.(*Client).Do example.org/app.(*T).Do main.main"},
		{"gopkg.in/yaml%2ev3.Unmarshal",
			"vendor/golang.org/x/net/idna.f gopkg.in/yaml%2ev3.Unmarshal main.main"},
		{"example%2eorg.F", "slices.SortFunc[...] example%2eorg.F main.main"},
		{"main.F[...]", "slices.Sort[example.org/app.T] main.F[...] main.main"},
		{"example.org/app.F",
			"iter.Pull[...].func1 github.com/lwango/lwango/coro.(*Coro).Yield example.org/app.F"},
		{"time.Sleep", "time.Sleep runtime.goexit"},
	} {
		if got := loop.PlaceOf(strings.Fields(test.stack)...); got != test.want {
			t.Errorf("%s: %s, want %s", test.stack, got, test.want)
		}
	}
}

// The goroutine that has run a loop is not taken for its own any more.
func TestRunLeavesNoLabel(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		l.Go(func(*loop.Thread) {})
		mustRun(t, l)
		var text strings.Builder
		must.Do(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
		for record := range strings.SplitSeq(text.String(), "\n\n") {
			if strings.Contains(record, "TestRunLeavesNoLabel") && strings.Contains(record, "# labels") {
				t.Error(record)
			}
		}
	})
}

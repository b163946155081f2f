package coro_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"text/template"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

type taskFunc func(*coro.Coro) coro.Value

func (f taskFunc) Run(c *coro.Coro) coro.Value { return f(c) }

// run gives every handoff the same test.
func run(t *testing.T, f func(t *testing.T, h coro.Handoff)) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		t.Run(h.String(), func(t *testing.T) { f(t, h) })
	}
}

func val(c coro.Code) coro.Value { return coro.Make(c, 0) }

func TestValue(t *testing.T) {
	for code := coro.Code(0); code < coro.NumCodes; code++ {
		for _, fd := range []int{0, 1, 1 << 20, 1<<31 - 1} {
			v := coro.Make(code, fd)
			if v.Code() != code || v.FD() != fd {
				t.Errorf("Make(%v, %d) = %#x: code %v, fd %d", code, fd, int64(v), v.Code(), v.FD())
			}
		}
	}
	if got := fmt.Sprint(coro.Abort, coro.AsyncAwaitReadWrite,
		coro.Code(10)); got != "Abort AsyncAwaitReadWrite Code(10)" {
		t.Errorf("names: %s", got)
	}
}

func TestResumeAndYieldAlternate(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		c := coro.New(h, nil)
		defer c.Close()
		for round := range 3 { // the same coroutine with one task after another
			var trace []string
			v := c.Start(taskFunc(func(c *coro.Coro) coro.Value {
				trace = append(trace, "a")
				c.Yield(coro.Make(coro.AsyncAwaitRead, 7))
				trace = append(trace, "b")
				c.Yield(val(coro.Suspend))
				trace = append(trace, "c")
				return val(coro.WantRead)
			}))
			for _, want := range []coro.Value{coro.Make(coro.AsyncAwaitRead, 7), val(coro.Suspend),
				val(coro.WantRead)} {
				if v != want {
					t.Fatalf("round %d: got %v, want %v", round, v.Code(), want.Code())
				}
				trace = append(trace, "|")
				if want.Code() != coro.WantRead {
					if c.Parked() {
						t.Fatal("parked while the task waits")
					}
					v = c.Resume()
				}
			}
			if got := strings.Join(trace, ""); got != "a|b|c|" {
				t.Fatalf("order %q", got)
			}
			if !c.Parked() || c.Dead() {
				t.Fatal("not parked after the task returned")
			}
		}
	})
}

// Tasks that do not wait follow each other without the loop; the first that waits hands back.
func TestNextTaskFollowsWithoutAHandoff(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		var trace string
		task := func(name string, f func(c *coro.Coro)) coro.Task {
			return taskFunc(func(c *coro.Coro) coro.Value {
				trace += name
				c.Defer(func() { trace += "." })
				if f != nil {
					f(c)
				}
				return val(coro.WantRead)
			})
		}
		rest := []coro.Task{
			task("b", func(*coro.Coro) { panic("b") }),
			task("c", func(c *coro.Coro) { c.Yield(val(coro.Suspend)) }),
			task("d", nil),
		}
		c := coro.New(h, func(c *coro.Coro, v coro.Value) coro.Task {
			if p := c.Panic(); p != nil {
				trace += "!"
			}
			trace += v.Code().String()[:1]
			if len(rest) == 0 {
				return nil
			}
			b := rest[0]
			rest = rest[1:]
			return b
		})
		v := c.Start(task("a", nil))
		if want := "a.Wb.!Ac"; trace != want || v != val(coro.Suspend) || c.Parked() {
			t.Fatalf("trace %q, want %q; %v", trace, want, v.Code())
		}
		v = c.Resume()
		if want := "a.Wb.!Ac.Wd.W"; trace != want || v != val(coro.WantRead) || !c.Parked() {
			t.Fatalf("trace %q, want %q; %v", trace, want, v.Code())
		}
		c.Close()
	})
}

func TestDeferredCallsRunLastFirstDownToTheMark(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		var trace string
		add := func(s string) func() { return func() { trace += s } }
		c := coro.New(h, nil)
		defer c.Close()
		c.Start(taskFunc(func(c *coro.Coro) coro.Value {
			c.Defer(add("1"))
			m := c.Mark()
			c.Defer(add("2"))
			c.Defer(func() { trace += "3"; c.Defer(add("4")) })
			c.RunDeferred(m)
			trace += "|"
			return val(coro.Abort)
		}))
		if trace != "342|1" {
			t.Errorf("trace %q", trace)
		}
	})
}

func TestDeferredCallsSurviveEachOther(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		var trace string
		c := coro.New(h, nil)
		c.Start(taskFunc(func(c *coro.Coro) coro.Value {
			c.Defer(func() { trace += "1" })
			c.Defer(func() { trace += "2"; panic("two") })
			c.Defer(func() { trace += "3"; runtime.Goexit() })
			c.Defer(func() { trace += "4"; panic("four") })
			return val(coro.Abort)
		}))
		if trace != "4321" {
			t.Errorf("trace %q", trace)
		}
		if !c.Dead() {
			t.Error("a deferred Goexit left the coroutine alive")
		}
		c.Dispose()
	})
}

func TestPanicIsCaughtWithItsStack(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		c := coro.New(h, nil)
		defer c.Close()
		cause := errors.New("cause")
		cleaned := false
		v := c.Start(taskFunc(func(c *coro.Coro) coro.Value {
			c.Defer(func() { cleaned = true })
			theCulprit(cause)
			return val(coro.WantRead)
		}))
		p := c.Panic()
		if v.Code() != coro.Abort || p == nil || !cleaned {
			t.Fatalf("value %v, panic %v, cleaned %v", v.Code(), p, cleaned)
		}
		if !errors.Is(p, cause) || !strings.Contains(string(p.Stack), "theCulprit") {
			t.Errorf("panic %v\n%s", p, p.Stack)
		}
		if c.Start(taskFunc(func(*coro.Coro) coro.Value {
			return val(coro.Suspend)
		})) != val(coro.Suspend) || c.Panic() != nil {
			t.Error("the coroutine is not usable after a panic")
		}
	})
}

//go:noinline
func theCulprit(err error) { panic(err) }

func TestKillCannotBeSwallowed(t *testing.T) {
	waits := func(c *coro.Coro) { c.Yield(val(coro.Suspend)) }
	tasks := map[string]func(c *coro.Coro, note func(string)){
		"plain": func(c *coro.Coro, note func(string)) { waits(c) },
		"recover": func(c *coro.Coro, note func(string)) {
			func() { defer func() { recover() }(); waits(c) }()
		},
		"template": func(c *coro.Coro, note func(string)) {
			tmpl := template.Must(template.New("").Funcs(
				template.FuncMap{"wait": func() string { waits(c); return "" }}).Parse("{{wait}}"))
			_ = tmpl.Execute(new(strings.Builder), nil)
		},
		"waits again in a deferred call": func(c *coro.Coro, note func(string)) {
			c.Defer(func() { note("first"); waits(c); note("waited") })
			defer func() { waits(c); note("waited") }()
			waits(c)
		},
	}
	run(t, func(t *testing.T, h coro.Handoff) {
		for name, task := range tasks {
			t.Run(name, func(t *testing.T) {
				var notes []string
				note := func(s string) { notes = append(notes, s) }
				c := coro.New(h, nil)
				c.Start(taskFunc(func(c *coro.Coro) coro.Value {
					c.Defer(func() { note("last") })
					task(c, note)
					note("went on")
					return 0
				}))
				c.Kill()
				if !c.Dead() {
					t.Fatal("alive after Kill")
				}
				c.Dispose()
				got := strings.Join(notes, ",")
				if got != "last" && got != "first,last" {
					t.Errorf("notes %s", got)
				}
			})
		}
	})
}

func TestGoexitOfTheTaskLeavesTheLoopAlive(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		cleaned := false
		c := coro.New(h, nil)
		v := c.Start(taskFunc(func(c *coro.Coro) coro.Value {
			c.Defer(func() { cleaned = true })
			runtime.Goexit()
			return val(coro.WantRead)
		}))
		if v.Code() != coro.Abort || !c.Dead() || !cleaned {
			t.Errorf("value %v, dead %v, cleaned %v", v.Code(), c.Dead(), cleaned)
		}
		c.Dispose()
	})
}

func TestTenThousandKillsLeakNothing(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		ran := 0
		task := taskFunc(func(c *coro.Coro) coro.Value {
			c.Defer(func() { ran++ })
			for {
				c.Yield(val(coro.WantRead))
			}
		})
		for range 10_000 {
			c := coro.New(h, nil)
			c.Start(task)
			c.Resume()
			c.Kill()
			c.Dispose()
		}
		if ran != 10_000 {
			t.Errorf("%d deferred calls ran", ran)
		}
		// TestMain's leak check sees any goroutine that is left.
	})
}

func TestPoolIsLastInFirstOutAndTrimsTheUnused(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		p := coro.Pool{Handoff: h}
		a, b, c := p.Get(), p.Get(), p.Get()
		p.Put(a, 1)
		p.Put(b, 2)
		p.Put(c, 3)
		if p.Get() != c {
			t.Error("not the last one put")
		}
		p.Put(c, 9)
		if !p.Trim(3, 1) || p.Len() != 2 || !a.Dead() || b.Dead() {
			t.Errorf("after Trim of one: %d left, dead %v %v", p.Len(), a.Dead(), b.Dead())
		}
		if p.Trim(3, 2) {
			t.Error("Trim says that there are others")
		}
		if p.Len() != 1 || !a.Dead() || !b.Dead() || c.Dead() {
			t.Errorf("after Trim: %d left, dead %v %v %v", p.Len(), a.Dead(), b.Dead(), c.Dead())
		}
		p.Close()
		if !c.Dead() {
			t.Error("Close left one alive")
		}
	})
}

// TestTrimInSteps: Trim closes each unused coroutine once, however few at a time, also while others
// are taken and put back.
func TestTrimInSteps(t *testing.T) {
	p := coro.Pool{Handoff: coro.Direct}
	const n, kept = 500, 20
	var all []*coro.Coro
	for range n {
		all = append(all, p.Get())
	}
	for i, c := range all {
		p.Put(c, int64(i))
	}
	for closed := 0; closed < n-kept; {
		top := p.Get()
		if top != all[n-1] {
			t.Fatal("not the last one put")
		}
		before := p.Len()
		more := p.Trim(n-kept, 7)
		p.Put(top, n)
		closed += before + 1 - p.Len()
		if want := closed < n-kept; more != want || p.Len() != n-closed {
			t.Fatalf("%d are closed, %d are left, and Trim says %v", closed, p.Len(), more)
		}
		for i, c := range all {
			if c.Dead() != (i < closed) {
				t.Fatalf("%d are closed, and of the %dth it is %v", closed, i, c.Dead())
			}
		}
	}
	for range kept {
		p.Get().Close()
	}
	if p.Len() != 0 || !all[n-kept].Dead() {
		t.Errorf("%d are left", p.Len())
	}
}

func TestMisuseIsCaught(t *testing.T) {
	mustPanic := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s did not panic", name)
			}
		}()
		f()
	}
	c := coro.New(coro.Channel, nil)
	mustPanic("Resume of a parked coroutine", func() { c.Resume() })
	c.Start(taskFunc(func(c *coro.Coro) coro.Value { c.Yield(0); return 0 }))
	mustPanic("Start of a running coroutine", func() { c.Start(nil) })
	c.Kill()
	c.Dispose()
	if _, err := coro.ParseHandoff("chanel"); err == nil {
		t.Error("ParseHandoff took chanel")
	}
}

func TestHandoffDoesNotAllocate(t *testing.T) {
	run(t, func(t *testing.T, h coro.Handoff) {
		p := coro.Pool{Handoff: h}
		defer p.Close()
		task := taskFunc(func(c *coro.Coro) coro.Value { c.Defer(func() {}); c.Yield(0); return 0 })
		n := testing.AllocsPerRun(1000, func() {
			c := p.Get()
			c.Start(task)
			c.Resume()
			p.Put(c, 0)
		})
		if n != 0 {
			t.Errorf("%v allocations per task", n)
		}
	})
}

func BenchmarkHandoff(b *testing.B) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		b.Run(h.String(), func(b *testing.B) {
			b.ReportAllocs()
			c := coro.New(h, nil)
			c.Start(taskFunc(func(c *coro.Coro) coro.Value {
				for {
					c.Yield(val(coro.Yield))
				}
			}))
			for b.Loop() {
				c.Resume()
			}
			c.Kill()
			c.Dispose()
		})
	}
}

package loop_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// waker is a thread that is idle and can be woken by Notify. It says why it was run.
type waker struct {
	loop.Thread
	code    coro.Code
	limit   time.Duration
	ignores bool
	runs    chan loop.WakeReason
	last    chan string
}

func newWaker() *waker {
	return &waker{code: coro.Suspend, limit: -1, runs: make(chan loop.WakeReason, 10),
		last: make(chan string, 10)}
}

func (h *waker) Run(t *loop.Thread) coro.Code {
	h.runs <- loop.WokenBy(t)
	if t.FD() >= 0 {
		_, _ = unix.Read(t.FD(), make([]byte, 1))
	}
	if t.Loop().Stopping() || t.Gone() {
		return coro.Abort
	}
	if !h.ignores {
		t.Layer().WakeOnNotify()
	}
	t.Layer().IdleTimeout(h.limit)
	return h.code
}
func (h *waker) ClientGone() {}
func (h *waker) Ended()      { close(h.runs) }

// next waits for the next run.
func (h *waker) next(t *testing.T, want loop.WakeReason) {
	t.Helper()
	select {
	case got, ok := <-h.runs:
		if !ok || got != want {
			t.Errorf("run for %v, want %v (%v)", got, want, ok)
		}
	case <-time.After(time.Minute):
		t.Fatal("not run")
	}
}

// over waits for the end.
func (h *waker) over(t *testing.T) {
	t.Helper()
	select {
	case got, ok := <-h.runs:
		if ok {
			t.Errorf("run for %v instead of its end", got)
		}
	case <-time.After(time.Minute):
		t.Fatal("no end")
	}
}

// TestHeed: an idle thread, with a descriptor or without, is woken by what wakes one that waits, is
// told what that was, and holds no coroutine meanwhile.
func TestHeed(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fds := openPair(t)
		own, none := newWaker(), newWaker()
		own.code = coro.WantRead
		must.Do(t, l.Attach(&own.Thread, fds[0], own, -1))
		own.Thread.Layer().Wake()
		l.Layer().Begin(&none.Thread, none)
		wait := start(t, l)
		for _, h := range []*waker{own, none} {
			h.next(t, loop.ByEvent)
			on(t, l, func() {
				if n := l.Stats().Working; n > 0 {
					t.Errorf("%d coroutines work", n)
				}
			})
			loop.Notify(&h.Thread)
			h.next(t, loop.ByNotify)
			on(t, l, func() { loop.Notify(&h.Thread); loop.Notify(&h.Thread) })
			h.next(t, loop.ByNotify)
			on(t, l, func() { h.limit = time.Hour; h.Thread.Layer().NotifyLocal() })
			h.next(t, loop.ByNotify)
			on(t, l, func() { h.limit = -1; loop.Jump(l, 2*time.Hour) })
			h.next(t, loop.ByTime)
		}
		on(t, l, func() { none.ignores = true; none.Thread.Layer().NotifyLocal() })
		none.next(t, loop.ByNotify)
		loop.Notify(&none.Thread) // for nothing
		on(t, l, func() {})
		on(t, l, func() { none.ignores = false; none.Thread.Layer().Wake() })
		none.next(t, loop.ByEvent)
		on(t, l, func() { none.Thread.Layer().SetClientGone() })
		none.next(t, loop.ByClientGone)
		none.over(t)
		loop.Notify(&none.Thread) // it has just ended
		must.Get(unix.Write(fds[1], []byte("x")))(t)
		own.next(t, loop.ByEvent)
		unix.Close(fds[1])
		own.next(t, loop.ByClientGone)
		own.over(t)
		wait()
	})
}

// TestHeedStop: a stop wakes idle threads, and tells them so.
func TestHeedStop(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		fds := openPair(t)
		defer unix.Close(fds[1])
		own, none := newWaker(), newWaker()
		own.code = coro.WantRead
		must.Do(t, l.Attach(&own.Thread, fds[0], own, -1))
		own.Thread.Layer().Wake()
		l.Layer().Begin(&none.Thread, none)
		wait := start(t, l)
		own.next(t, loop.ByEvent)
		none.next(t, loop.ByEvent)
		l.Stop(time.Minute)
		own.next(t, loop.ByStop)
		none.next(t, loop.ByStop)
		own.over(t)
		none.over(t)
		wait()
	})
}

// laster is a waker that has something to do at its end.
type laster struct{ *waker }

func (e laster) BeforeEnd() {
	e.Thread.Layer().RunBeforeEnd(func() {
		defer func() { e.last <- "deferred" }()
		e.Thread.Defer(func() { e.last <- "by Defer" })
		e.last <- "begun"
		switch e.limit {
		case time.Hour:
			_ = e.Thread.Sleep(time.Hour)
		case time.Minute:
			runtime.Goexit()
		case time.Second:
			panic("last")
		}
		e.last <- "done"
	})
}

// TestRunBeforeEnd: an idle thread that is killed runs once more, as one that waited does: what
// waits is unwound. The loop goes on with the others.
func TestRunBeforeEnd(t *testing.T) {
	runPanicking(t, func(t *testing.T, l *loop.Loop) {
		all := []laster{}
		for _, limit := range []time.Duration{-1, time.Hour, time.Minute, time.Second} {
			h := laster{newWaker()}
			h.limit = limit
			all = append(all, h)
			l.Layer().Begin(&h.Thread, h)
		}
		wait := start(t, l)
		for _, h := range all {
			h.next(t, loop.ByEvent)
		}
		on(t, l, func() { loop.KillAll(l) })
		wait()
		for _, h := range all {
			h.over(t)
			close(h.last)
			var got []string
			for s := range h.last {
				got = append(got, s)
			}
			want := 3
			if h.limit < 0 {
				want = 4
			}
			if len(got) != want || got[0] != "begun" {
				t.Errorf("%v: %q", h.limit, got)
			}
		}
		if left := loop.Left(l); len(left) > 0 {
			t.Error(left)
		}
		if n := l.Panicked(); n != 1 {
			t.Errorf("%d panics", n)
		}
	})
}

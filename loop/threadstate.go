package loop

import (
	"time"

	"github.com/lwango/lwango/coro"
)

// ThreadState is what a loop knows of one of its threads, to inspect a running server.
type ThreadState struct {
	Task    Task
	FD      int           // the thread's own descriptor; -1: none
	State   string        // "idle", without a coroutine; "queued"; "waiting"; "running"
	Code    coro.Code     // with which it waits
	Awaited int           // the other descriptor that it waits for; -1: none
	For     time.Duration // since it yielded, to the turn; 0 of an idle thread
	Limit   time.Duration // until the wait ends at the latest; negative: there is no limit
}

// EachThread calls f for each thread that has not ended, idle ones only if idle is set. It is
// called on the loop, and f must neither wait nor change anything. It takes some 20 ns for each
// descriptor.
func (l LoopLayer) EachThread(idle bool, f func(ThreadState)) {
	for _, d := range l.table {
		if d != nil && d.thread != nil && d == &d.thread.own {
			l.visitThread(d.thread, idle, f)
		}
	}
	for _, t := range l.unattached {
		l.visitThread(t, idle, f)
	}
}

func (l *Loop) visitThread(t *Thread, idle bool, f func(ThreadState)) {
	s := ThreadState{Task: t.task, FD: int(t.own.fd), Awaited: -1, Limit: -1}
	if t.until != never {
		s.Limit = max(time.Duration(t.until-l.now)*time.Millisecond, 0)
	}
	switch {
	case t.own.flags&ended != 0:
		return
	case t.own.flags&queued != 0:
		s.State = "queued"
	case t == l.current:
		s.State = "running"
	case t.co == nil:
		if !idle {
			return
		}
		s.State, s.Code = "idle", coro.WantRead
		if t.own.flags&suspended != 0 {
			s.Code = coro.Suspend
		}
	default:
		s.State, s.Code = "waiting", t.co.Yielded.Code()
		if s.Code >= coro.AsyncAwaitRead {
			s.Awaited = t.co.Yielded.FD()
		}
	}
	if t.co != nil {
		s.For = max(time.Duration(l.now-t.co.Since)*time.Millisecond, 0)
	}
	f(s)
}

package loop

import (
	"time"

	"github.com/lwango/lwango/timeoutwheel"
)

// stopper is the state of an orderly stop.
type stopper struct {
	loop     *Loop
	stopping bool
	over     bool // the threads were killed, and none is to begin any more
	grace    timeoutwheel.Timer
}

func (s *stopper) init(l *Loop) {
	s.loop = l
	s.grace.Init(s)
}

// Expire is the wheel's: the grace period is over.
func (s *stopper) Expire() { s.loop.killAll() }

// Stop ends the loop's threads, so that Run returns. Idle ones run once more and see Stopping: a listener accepts
// what has come, a connection reads what was sent. The others have the grace period to finish what they are at;
// those left after it are killed, which runs their deferred calls. Any goroutine may call it; a second call can
// only shorten the grace period.
func (l *Loop) Stop(grace time.Duration) {
	_ = l.Post(func() {
		at := l.after(max(grace, 0))
		if !l.stop.grace.Pending() || at < l.stop.grace.At() {
			l.wheel.Add(&l.stop.grace, at)
		}
		if l.stop.stopping {
			return
		}
		l.stop.stopping = true
		for _, d := range l.table {
			if d != nil && d.flags&shared == 0 {
				Wake(d.thread)
				d.thread.notify()
			}
		}
		for t := range l.detached {
			t.notify()
		}
	})
}

// Stopped returns a source that is ready once Stop was called, for the loop's threads that would wait on and on. Any
// number of them may wait for it, at no cost: Stop has all threads that wait for sources look at them again.
func (l *Loop) Stopped() Source { return &l.stop }

// Watch implements Source.
func (s *stopper) Watch(*Thread) error { return nil }

// Ready implements Source.
func (s *stopper) Ready() bool { return s.stopping }

// Unwatch implements Source.
func (s *stopper) Unwatch(*Thread) {}

// Stopping reports that Stop was called. It is for the loop's threads.
func (l *Loop) Stopping() bool { return l.stop.stopping }

// killAll ends every thread at once. Deferred calls that start threads, attach sockets or post functions must not keep the
// loop going: from now on it takes none of these.
func (l *Loop) killAll() {
	l.stop.over = true
	l.post.refuse()
	for _, d := range l.table {
		if d != nil && d.flags&shared == 0 {
			l.kill(d.thread)
		}
	}
	for len(l.detached) > 0 {
		for t := range l.detached {
			l.kill(t)
		}
	}
}

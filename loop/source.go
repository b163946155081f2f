package loop

import (
	"time"

	"github.com/lwango/lwango/coro"
)

// Source is something that threads can wait for. After AwaitAny the caller takes what the source
// has by methods of the source's own type.
//
// The thread that waits calls all of the methods, on its loop, and they must not wait. Ready may
// yield, but not each time that it is called, because AwaitAny then asks all sources anew. If other
// goroutines change the source's state, Watch and Ready guard it: a change after Watch must not be
// missed.
type Source interface {
	// Watch begins to watch for t: until Unwatch, the source calls Notify(t), from any goroutine,
	// when Ready may have become true. If Watch returns an error, the source does not watch.
	Watch(t *Thread) error

	// Ready reports whether there is something to take. It is called after Watch, and again
	// whenever t was notified, perhaps for nothing.
	Ready() bool

	// Unwatch undoes Watch. A call of Notify that is under way does no harm.
	Unwatch(t *Thread)
}

// AwaitAny waits until one of the sources is ready, for d at most; negative: without limit. It
// returns the index of the first one that is ready, in the order given. If the wait returns for
// another reason, the sources are asked once more, and if none is ready the index is -1 and the
// error ErrDeadlineExceeded, ErrCanceled, or ErrClientGone. With t's own socket among the sources,
// ErrClientGone is not returned: reading from the socket tells. For a source that cannot be waited
// for, AwaitAny returns its index and its error. A source that is nil, or a nil *Timer, is never
// ready.
func (t *Thread) AwaitAny(d time.Duration, sources ...Source) (int, error) {
	return t.awaitSources(d, sources, false)
}

// AwaitAll waits until all of the sources are ready, or have been since the call, for d at most;
// negative: without limit. Its errors are those of AwaitAny.
func (t *Thread) AwaitAll(d time.Duration, sources ...Source) error {
	_, err := t.awaitSources(d, sources, true)
	return err
}

// selection is one call of AwaitAny or AwaitAll. The thread is not in it: with a pointer beside
// them that others may keep, the compiler would put the sources on the heap.
type selection struct {
	sources   []Source
	all       bool // AwaitAll, not AwaitAny
	watched   int  // the first so many sources are watched
	wereReady int  // with all: the first so many were ready
}

func (t *Thread) awaitSources(d time.Duration, sources []Source, all bool) (int, error) {
	t.mustRun() // also if the sources are ready
	t.flush()
	s := selection{sources: sources, all: all}
	defer s.unwatch(t) // also when the thread is killed
	if i, err := s.watch(t); err != nil {
		return i, err
	}
	l := t.loop
	if d >= 0 {
		l.tick() // what the thread did before may have taken its time
	}
	until := l.after(d)
	var why error // that the last wait has returned
	for {
		resumes := l.stats.Resumes
		if timedOut(why) {
			s.poll()
		}
		if i, done, err := s.check(); done {
			return i, err
		}
		if why != nil {
			return -1, why
		}
		code := wantCode[t.wants]
		// If t's own socket is among the sources, reading from that tells t that the client has
		// left.
		if no := t.waitError(); no != nil &&
			(code == coro.Suspend || no == ErrCanceled || no == ErrBudget) {
			return -1, t.refused()
		}
		if l.stats.Resumes != resumes && l.now < until {
			continue // a Ready has yielded, and t has missed notifications of the sources before it
		}
		t.own.flags |= notifiable
		why = t.waitWithin(coro.Make(code, 0), until) // which ends the flag
	}
}

// watch watches the sources. It stops at the first one that refuses, and returns its index and
// error.
func (s *selection) watch(t *Thread) (int, error) {
	for i, source := range s.sources {
		if source != nil {
			if err := source.Watch(t); err != nil {
				return i, err
			}
		}
		s.watched++
	}
	return 0, nil
}

func (s *selection) unwatch(t *Thread) {
	for _, source := range s.sources[:s.watched] {
		if source != nil {
			source.Unwatch(t)
		}
	}
}

// check calls Ready of the sources. It reports whether the wait is over, and which source has
// decided that.
func (s *selection) check() (index int, done bool, err error) {
	if !s.all {
		for i, source := range s.sources {
			if source != nil && source.Ready() {
				return i, true, gone(source)
			}
		}
		return -1, false, nil
	}
	for s.wereReady < len(s.sources) {
		source := s.sources[s.wereReady]
		if source == nil || !source.Ready() {
			break
		}
		if err := gone(source); err != nil {
			return s.wereReady, true, err
		}
		s.wereReady++
	}
	return s.wereReady - 1, s.wereReady == len(s.sources), nil
}

// poll asks the kernel for events that the loop has not seen yet.
func (s *selection) poll() {
	for _, source := range s.sources {
		if r, ok := source.(*Readiness); ok {
			r.d.poll(r.events)
		}
	}
}

// notify makes t ask its sources again. It is called on the loop.
func (t *Thread) notify() { t.notifyFor(byNotify) }

func (t *Thread) notifyFor(why wakeReason) { t.notifyIn(&t.loop.runq, why) }

// notifyIn puts t into one of its loop's queues for that.
func (t *Thread) notifyIn(q *queue, why wakeReason) {
	if t.own.flags&notifiable != 0 {
		t.loop.enqueue(q, t, why)
	}
}

// Notify makes t ask its sources again, if t waits in AwaitAny or AwaitAll, and calls the Task of
// an idle t that has asked for it (WakeOnNotify). Any goroutine may call it. It does not wait, and
// any number of calls cost one wake-up of t's loop. After the loop has stopped it does nothing.
func Notify(t *Thread) {
	if t.notified.CompareAndSwap(false, true) {
		t.loop.post.notify(t)
	}
}

// NotifyLocal is Notify for functions that run on t's own loop, such as those given to Post. It
// takes no lock and queues nothing. For an event that many threads of a loop wait for, the
// goroutine that brings it makes one Post for each loop, and not one Notify for each thread; see
// Broadcast.
func (t ThreadLayer) NotifyLocal() { t.notify() }

package loop

import (
	"os"
	"time"

	"github.com/lwango/lwango/coro"
)

// Source is something that threads can wait for. What it has to give is for its own type to say: after AwaitAny the
// caller asks the source that was ready.
//
// All methods are called by the thread that waits, on its loop, and must not wait themselves. Ready may yield, but not each
// time that it is asked: all sources are asked anew then. Where the source's state is changed from elsewhere, Ready and
// Watch guard it: a change after Watch must not be missed.
type Source interface {
	// Watch has Notify(t) called when Ready may have become true, from any goroutine, until Unwatch. On an error it
	// watches nothing.
	Watch(t *Thread) error

	// Ready reports whether there is something to take. It is called after Watch, and then whenever t was notified,
	// perhaps for nothing.
	Ready() bool

	// Unwatch ends what Watch began. A call of Notify that is under way does no harm.
	Unwatch(t *Thread)
}

// AwaitAny waits until one of the sources is ready, at most d; negative: without limit. It returns the index of the
// first that is, in the order given. All are asked before the error is considered that the wait ends with:
// os.ErrDeadlineExceeded, ErrClientGone (unless t's own socket is among the sources: reading from it tells) or
// ErrCanceled, with the index -1. A source that cannot be waited for is returned with its own error.
func (t *Thread) AwaitAny(d time.Duration, sources ...Source) (int, error) {
	return t.awaitSources(d, sources, false)
}

// AwaitAll waits until all of the sources are ready, at most d; negative: without limit. Its errors are those of
// AwaitAny.
func (t *Thread) AwaitAll(d time.Duration, sources ...Source) error {
	_, err := t.awaitSources(d, sources, true)
	return err
}

func (t *Thread) awaitSources(d time.Duration, sources []Source, all bool) (int, error) {
	t.flush()
	watched, known := 0, false
	defer func() { // also when the thread is killed
		for _, s := range sources[:watched] {
			s.Unwatch(t)
		}
	}()
	for i, s := range sources {
		if err := s.Watch(t); err != nil {
			return i, err
		}
		watched++
		if r, ok := s.(*Readiness); ok && r.known {
			known = true
		}
	}

	l := t.loop
	l.tick() // what the thread did before may have taken its time
	until, doubt := l.after(d), int64(never)
	if known {
		doubt = l.now + trust
	}
	var err error
	for first := 0; ; { // first that is not ready
		turn := l.stats.Resumes
		if all {
			for first < len(sources) && sources[first].Ready() {
				if err := gone(sources[first]); err != nil {
					return first, err
				}
				first++
			}
			if first == len(sources) {
				return first - 1, nil
			}
		} else {
			for i, s := range sources {
				if s.Ready() {
					return i, gone(s)
				}
			}
		}
		if err == os.ErrDeadlineExceeded && l.now < until {
			doubt, err = never, nil
			for i, s := range sources {
				if r, ok := s.(*Readiness); ok && r.known {
					if err := l.renew(r.d.asShared()); err != nil {
						return i, err
					}
				}
			}
		}
		if err != nil {
			return -1, err
		}
		code := wantCode[t.wants]
		// Where its own socket is among the sources, that tells t that the client has left.
		if why := t.leaving(); why != nil && (code == coro.Suspend || why == ErrCanceled) {
			return -1, t.refused()
		}
		if l.stats.Resumes != turn && l.now < until {
			continue // one of them has yielded: what those asked before it have told meanwhile is not told again
		}
		err = t.listen(code, min(until, doubt))
	}
}

// listen waits until t is notified, or any event of its own that the code asks for, at the given time at the latest.
func (t *Thread) listen(code coro.Code, until int64) error {
	t.own.flags |= listening
	err := t.wait(coro.Make(code, 0), until)
	t.own.flags &^= listening
	return err
}

// notify has t look at its sources again. It is the loop's.
func (t *Thread) notify() {
	if t.own.flags&listening != 0 {
		t.loop.ready(t, wokenByEvent)
	}
}

// Notify has t, if it waits in AwaitAny or AwaitAll, ask its sources again. Any goroutine may call it. It does not
// wait, and many calls cost one wake-up of t's loop; after the loop has ended it does nothing.
func Notify(t *Thread) {
	if t.notified.CompareAndSwap(false, true) {
		t.loop.post.notify(t)
	}
}

// Nudge is Notify by t's own loop, in a function given to Post: no lock, and nothing queued. It is for what many threads
// of a loop wait for at once. One Post for each loop, which nudges all of them there, leaves whoever brings it with work
// for each loop and not for each thread.
func Nudge(t *Thread) { t.notify() }

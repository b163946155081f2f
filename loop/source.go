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

// selection is one call of AwaitAny or AwaitAll. The thread is not in it: with a pointer beside them that others may keep,
// the compiler would put the sources on the heap.
type selection struct {
	sources []Source
	all     bool // it is AwaitAll's
	watched int  // the first so many sources are watched
	passed  int  // with all: the first so many were ready
	trusts  bool // some sources are loans that epoll was not asked about
}

func (t *Thread) awaitSources(d time.Duration, sources []Source, all bool) (int, error) {
	t.flush()
	s := selection{sources: sources, all: all}
	defer s.unwatch(t) // also when the thread is killed
	if i, err := s.watch(t); err != nil {
		return i, err
	}
	l := t.loop
	l.tick() // what the thread did before may have taken its time
	until, check := l.after(d), int64(never)
	if s.trusts {
		check = l.now + trust
	}
	var why error // that the last wait has returned
	for {
		resumes := l.stats.Resumes
		if i, done, err := s.ask(); done {
			return i, err
		}
		if why == os.ErrDeadlineExceeded && l.now < until {
			why, check = nil, never
			if i, err := s.makeSure(l); err != nil {
				return i, err
			}
		}
		if why != nil {
			return -1, why
		}
		code := wantCode[t.wants]
		// If t's own socket is among the sources, reading from that tells t that the client has left.
		if no := t.leaving(); no != nil && (code == coro.Suspend || no == ErrCanceled) {
			return -1, t.refused()
		}
		if l.stats.Resumes != resumes && l.now < until {
			continue // a Ready has yielded, and t did not hear the notifications of sources asked before it
		}
		why = t.listen(code, min(until, check))
	}
}

// watch watches the sources, up to the first that refuses, whose index and error it returns.
func (s *selection) watch(t *Thread) (int, error) {
	for i, source := range s.sources {
		if err := source.Watch(t); err != nil {
			return i, err
		}
		s.watched++
		s.trusts = s.trusts || onTrust(source) != nil
	}
	return 0, nil
}

func (s *selection) unwatch(t *Thread) {
	for _, source := range s.sources[:s.watched] {
		source.Unwatch(t)
	}
}

// ask asks the sources. It reports whether the wait is over, and which source has seen to that.
func (s *selection) ask() (index int, done bool, err error) {
	if !s.all {
		for i, source := range s.sources {
			if source.Ready() {
				return i, true, gone(source)
			}
		}
		return -1, false, nil
	}
	for s.passed < len(s.sources) && s.sources[s.passed].Ready() {
		if err := gone(s.sources[s.passed]); err != nil {
			return s.passed, true, err
		}
		s.passed++
	}
	return s.passed - 1, s.passed == len(s.sources), nil
}

// makeSure asks epoll about the loans that were trusted so far.
func (s *selection) makeSure(l *Loop) (int, error) {
	for i, source := range s.sources {
		if loan := onTrust(source); loan != nil {
			if err := l.renew(loan); err != nil {
				return i, err
			}
		}
	}
	return 0, nil
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

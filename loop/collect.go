package loop

import (
	"errors"
	"time"
)

// Collect waits until all of the promises are settled, for d at most; negative: without limit. t is
// the calling thread. It returns all that there is, in the order given: a value or an error of each
// promise. A promise that fails does not end the wait. For one that is not settled when the wait
// ends, the error is the wait's, see Thread.AwaitAny. errors.Join makes one error of them, which is
// nil if all have values.
//
// Then Collect cancels what still runs for these promises: the waits of a thread that Go has
// started return ErrCanceled, and so do those of its threads; a function of Call does not begin any
// more, and with conn.Call its context ends. Collect does not wait for that. A promise that was
// settled by other means, or that others await, too, should stand for nothing that they need.
func Collect[T any](t *Thread, d time.Duration, promises ...*Promise[T]) ([]T, []error) {
	defer cancelUnsettled(t, promises) // also when the thread is killed
	ended := t.AwaitAll(d, sourcesOf(promises)...)
	values, errs := make([]T, len(promises)), make([]error, len(promises))
	for i, p := range promises {
		if values[i], errs[i] = p.Value(); ended != nil && errs[i] == ErrPending {
			errs[i] = ended
		}
	}
	return values, errs
}

// First waits until one of the promises has a value, for d at most; negative: without limit. t is
// the calling thread. If several have one, the first in the order given counts. If all have failed,
// First returns their errors, joined in that order. If the wait ends early, it returns the errors
// that there are and the wait's, see Thread.AwaitAny. However it returns, it cancels what still
// runs for the promises, as Collect does.
func First[T any](t *Thread, d time.Duration, promises ...*Promise[T]) (T, error) {
	defer cancelUnsettled(t, promises) // also when the thread is killed
	var limit *Timer                   // nil: never ready
	if d >= 0 {
		limit = t.After(d)
	}
	var none T
	n := len(promises)
	sources := append(sourcesOf(promises), limit)
	errs := make([]error, n, n+1)
	for range n {
		i, err := t.AwaitAny(-1, sources...)
		if i == n {
			err = ErrDeadlineExceeded
		}
		if err != nil {
			return none, errors.Join(append(errs, err)...)
		}
		value, err := promises[i].Value()
		if err == nil {
			return value, nil
		}
		sources[i], errs[i] = nil, err
	}
	if n == 0 {
		return none, errors.New("loop: First of no promises")
	}
	return none, errors.Join(errs...)
}

// sourcesOf returns the promises as sources, with room for one more.
func sourcesOf[T any](promises []*Promise[T]) []Source {
	sources := make([]Source, len(promises), len(promises)+1)
	for i, p := range promises {
		sources[i] = p
	}
	return sources
}

// cancelUnsettled cancels what still runs for the promises.
func cancelUnsettled[T any](t *Thread, promises []*Promise[T]) {
	for _, p := range promises {
		if p.cancel != nil && !p.Ready() {
			p.cancel(t.loop)
		}
	}
}

// runOn runs f, which has to run on l, for a thread of from: now, or posted.
func (l *Loop) runOn(from *Loop, f func()) {
	if l == from {
		f()
	} else {
		_ = l.Post(f) // a loop that has ended has ended its threads
	}
}

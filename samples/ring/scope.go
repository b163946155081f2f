package main

import (
	"errors"
	"time"
)

// A Scope is what tasks are spawned into that end before it does. So nothing runs that nobody waits
// for, and what the tasks use outlives them.
type Scope struct {
	c        *Context
	failed   func(error) // called with the error of each task, or nil
	children map[*fiber]None
	joining  *fiber
	cause    error // of Cancel
	ended    bool
}

// WithScope calls body, and returns when body and all tasks that were spawned have ended. The error
// is body's. The tasks' errors go to failed, one by one: that of one task does not touch another.
// If the calling task is canceled, so are they.
func WithScope(c *Context, failed func(error), body func(*Scope) error) error {
	s := &Scope{c: c, failed: failed, children: make(map[*fiber]None)}
	err := errPanic
	defer func() {
		if err != nil {
			s.Cancel(err)
		}
		s.Join(0)
		s.ended = true
	}()
	err = body(s)
	return err
}

var errPanic = errors.New("the task that has opened the scope has panicked")

// Spawn lets a task begin, beside the one that calls it. It panics if the scope has ended.
func (s *Scope) Spawn(t Task[None]) {
	if s.ended {
		panic("a task is spawned into a scope that has ended")
	}
	var err error
	var f *fiber
	f = s.c.start(func() { _, err = t(s.c) }, func(panicked error) {
		if panicked != nil {
			err = panicked
		}
		delete(s.children, f)
		if err != nil && s.failed != nil {
			s.failed(err)
		}
		if s.joining != nil && len(s.children) == 0 && s.joining.state == parked {
			s.joining.wake()
		}
	})
	s.children[f] = None{}
	if s.cause != nil {
		f.cancel(s.cause)
	}
}

// Cancel lets all tasks of the scope end: their operations are canceled, and later ones fail with
// the cause. It does not wait for that.
func (s *Scope) Cancel(cause error) {
	s.cause = cause
	for f := range s.children {
		f.cancel(cause)
	}
}

// Join waits until all tasks have ended, or for the timeout, if that is not 0, and reports whether
// they have.
func (s *Scope) Join(timeout time.Duration) bool {
	f := s.c.running
	s.joining = f
	for len(s.children) > 0 {
		if f.cause != nil && s.cause == nil {
			s.Cancel(f.cause)
		}
		if f.wait(parked, timeout); f.expired {
			break
		}
	}
	s.joining = nil
	return len(s.children) == 0
}

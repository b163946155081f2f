package loop

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/lwango/lwango/coro"
)

// ErrCanceled ends the waits of a thread whose scope was canceled. It is a context.Canceled.
var ErrCanceled = fmt.Errorf("thread canceled: %w", context.Canceled)

// PanicError is a panic that arrives where the result was to be.
type PanicError = coro.PanicError

// ErrExited is the error of what has ended its goroutine instead of returning.
var ErrExited = errors.New("goroutine ended by runtime.Goexit")

// scope holds the threads that another has started, until they have ended.
type scope struct {
	owner    *Thread
	outer    *scope
	members  map[*Thread]struct{}
	err      error // the first of them
	canceled bool
}

// Go starts f as a thread within t's scope, on the same loop: whatever happens, it ends before the scope does. That is
// the one of the call of Scope that t is in, or else the whole of t's body, with a Request that of its handler; what
// deferred calls start is waited for as well.
//
// An error or a panic of f cancels the others of the scope, and t itself until it joins them: their waits end with
// ErrCanceled, but for t's on its own socket. When the client leaves, all waits end with ErrClientGone. To start something
// that outlives t, say so: Loop.Go.
//
// Of f and t only one runs at a time, so they share variables without locks. But what waits on t's behalf, reading a
// Request's body or writing its Response, is for t alone, and panics elsewhere.
func (t *Thread) Go(f func(t *Thread) error) *Thread {
	return t.start(&memberBody{f: f})
}

func (t *Thread) start(b *memberBody) *Thread {
	if t.co.Killed() {
		runtime.Goexit() // as at its waits: there is nobody left to end what it starts now
	}
	m := t.extra()
	if m.scope == nil {
		s := &scope{owner: t}
		m.scope = s
		t.Defer(func() { t.leave(s) })
	}
	if m.calls == nil {
		m.calls = new(calls)
	}
	s := m.scope
	member := &Thread{more: &more{member: s, calls: m.calls}}
	member.own.flags = t.own.flags & (finished | keepWaiting | canceled)
	if s.canceled {
		member.own.flags |= canceled
	}
	if s.members == nil {
		s.members = make(map[*Thread]struct{})
	}
	s.members[member] = struct{}{}
	b.thread = member
	t.loop.begin(member, b)
	return member
}

// leave ends a scope that has begun with a call of Go, with t's deferred calls.
func (t *Thread) leave(s *scope) {
	if err := t.join(s); err != nil {
		t.loop.log.Error("thread ended with an error of one that it had started", "error", err)
	}
	if t.more.scope == s {
		t.more.scope = nil
	}
}

// Join waits for the threads of t's scope, and returns the error, or the panic as a *PanicError, of the one that failed
// first, if t has not canceled them. It does not end before they have: neither a limit of time nor the client's leaving
// can end it, but they do end the waits of those it waits for.
func (t *Thread) Join() error {
	if t.more == nil || t.more.scope == nil {
		return nil
	}
	return t.join(t.more.scope)
}

func (t *Thread) join(s *scope) error {
	if len(s.members) > 0 {
		t.flush()
	}
	for len(s.members) > 0 {
		_ = t.listen(coro.Suspend, never)
	}
	err := s.err
	s.err, s.canceled = nil, false
	return err
}

// Cancel ends the waits of all threads in t's scope with ErrCanceled, those of their own scopes included. Join tells
// when they have ended.
func (t *Thread) Cancel() {
	if t.more != nil && t.more.scope != nil {
		t.more.scope.cancel()
	}
}

// Scope runs f with a scope of its own for the threads that it starts with t.Go, and returns when these have ended. It
// returns f's error, or theirs if f has none but ErrCanceled. If f fails, or panics, they are canceled.
func (t *Thread) Scope(f func() error) error {
	m := t.extra()
	outer := m.scope
	m.scope = &scope{owner: t, outer: outer}
	defer func() { m.scope = outer }()
	return t.joined(f)
}

// joined runs f, and ends with the last thread of the present scope.
func (t *Thread) joined(f func() error) error {
	returned := false
	defer func() {
		if !returned {
			t.Cancel()
			_ = t.Join()
		}
	}()
	err := f()
	returned = true
	if err != nil {
		t.Cancel()
	}
	if e := t.Join(); e != nil && (err == nil || errors.Is(err, ErrCanceled)) {
		err = e
	}
	return err
}

// End returns a promise that is kept when t has ended, with the error it has ended with. It is called on t's loop; the
// promise can be awaited anywhere.
func (t *Thread) End() *Promise[struct{}] {
	m := t.extra()
	if m.end == nil {
		m.end = new(Promise[struct{}])
		if t.own.flags&ended != 0 {
			m.end.settle(struct{}{}, m.err)
		}
	}
	return m.end
}

func (s *scope) cancel() {
	if s == nil || s.canceled {
		return
	}
	s.canceled = true
	for t := range s.members {
		t.own.flags |= canceled
		t.stopWaiting(wokenByCancel)
		for inner := t.more.scope; inner != nil; inner = inner.outer {
			inner.cancel()
		}
	}
}

// fail cancels the scope because of the error of a member, and its owner with it, who may be in a scope within.
func (s *scope) fail(err error) {
	s.err = err
	s.cancel()
	for inner := s.owner.more.scope; inner != nil && inner != s; inner = inner.outer {
		inner.cancel()
	}
	s.owner.stopWaiting(wokenByCancel)
}

// failed reports that a thread has failed in one of t's scopes, and t has not learned it from Join.
func (t *Thread) failed() bool {
	if t.more != nil {
		for s := t.more.scope; s != nil; s = s.outer {
			if s.err != nil {
				return true
			}
		}
	}
	return false
}

// forsake tells the threads that t has started that the client has left.
func (t *Thread) forsake() {
	if t.more == nil {
		return
	}
	for s := t.more.scope; s != nil; s = s.outer {
		for member := range s.members {
			member.own.flags |= finished
			if member.own.flags&keepWaiting == 0 {
				member.stopWaiting(wokenByLeaving)
			}
			member.forsake()
		}
	}
}

func (t *Thread) stopWaiting(why reason) {
	if t.own.flags&(suspended|listening) != 0 {
		t.loop.ready(t, why)
	}
}

func (l *Loop) killMembers(s *scope) {
	for ; s != nil; s = s.outer {
		s.canceled = true // their end is no error
		for len(s.members) > 0 {
			for t := range s.members {
				l.kill(t)
			}
		}
	}
}

// memberBody is what a thread within a scope does.
type memberBody struct {
	thread *Thread
	f      func(t *Thread) error
	settle func(err error) // with what the thread has ended; nil: an error is the scope's
}

// Run implements Body.
func (b *memberBody) Run(t *Thread) coro.Code {
	t.more.err = ErrExited
	t.more.err = t.joined(func() (err error) {
		defer func() {
			if t.co.Killed() {
				return // it returns nothing any more: the panic of a deferred call is the coroutine's, and is logged
			}
			if p := recover(); p != nil {
				err = &PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
		return b.f(t)
	})
	return coro.Abort
}

// Left implements Body; it has no peer of its own.
func (b *memberBody) Left() {}

// Ended implements Body.
func (b *memberBody) Ended() {
	t := b.thread
	s, err := t.more.member, t.more.err
	delete(s.members, t)
	if b.settle != nil {
		b.settle(err)
	} else if err != nil && !s.canceled {
		s.fail(err)
	}
	if len(s.members) == 0 {
		s.owner.notify()
	}
}

package loop

import (
	"errors"
	"runtime"
	"runtime/debug"

	"github.com/lwango/lwango/coro"
)

// PanicError is a panic that arrives in the place of a result.
type PanicError = coro.PanicError

// scope holds the threads that another thread has started, until they have ended.
type scope struct {
	owner    *Thread
	outer    *scope
	members  map[*Thread]struct{}
	err      error // of the first that failed
	canceled bool
}

// Go starts a green thread that runs f, within t's scope and on the same loop. Whatever happens,
// the thread ends before the scope closes. The scope is the innermost call of Scope that t is in,
// or else t's whole task; the scope of a Request is its handler. Threads that deferred calls start
// are waited for, too.
//
// If f returns an error or panics, the other threads of the scope are canceled, and so is t until
// it joins them: their waits return ErrCanceled, except t's waits for its own socket. When the
// client leaves, all waits return ErrClientGone. Loop.Go starts a thread that outlives t.
//
// Of f and t only one runs at a time, so they share variables without locks. But waits on t's
// behalf, such as reading a Request's body or writing its Response, are for t alone, and panic on
// another thread.
func (t *Thread) Go(f func(t *Thread) error) *Thread {
	return t.start(&memberTask{f: f})
}

func (t *Thread) start(task *memberTask) *Thread {
	if t.co.Killed() {
		runtime.Goexit() // as its waits do: no code is left that would end the new thread
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
	member := &Thread{more: &more{member: s, calls: m.calls, budget: m.budget, under: m.bound}}
	member.own.flags = t.own.flags & (finished | keepWaiting | canceled)
	if s.canceled {
		member.own.flags |= canceled
	}
	if s.members == nil {
		s.members = make(map[*Thread]struct{})
	}
	s.members[member] = struct{}{}
	task.thread = member
	t.loop.begin(member, task)
	return member
}

// leave closes a scope that a call of Go has opened. It is one of t's deferred calls.
func (t *Thread) leave(s *scope) {
	if err := t.join(s); err != nil {
		t.loop.logMember(err)
	}
	if t.more != nil && t.more.scope == s { // nil: see TakeDeferred
		t.more.scope = nil
	}
}

// logMember logs the error of a thread that another one had started, if no Join returns it.
func (l *Loop) logMember(err error) {
	attributes := []any{"error", err}
	if e, ok := errors.AsType[*PanicError](err); ok {
		attributes = append(attributes, "stack", string(e.Stack))
	}
	l.log.Error("loop: a thread that another one had started has failed", attributes...)
}

// Join waits until the threads of t's scope have ended. It returns the error of the one that failed
// first, or its panic as a *PanicError, unless t has canceled them. Neither a limit of time nor the
// leaving of the client makes Join return earlier, but they do make the waits of those threads
// return.
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
		t.own.flags |= notifiable
		_ = t.wait(coro.Make(coro.Suspend, 0), never) // whatever the budget; it ends the flag
	}
	err := s.err
	s.err, s.canceled = nil, false
	return err
}

// Cancel makes the waits of all threads in t's scope return ErrCanceled, and those of the threads
// in their own scopes. Join waits until they have ended.
func (t *Thread) Cancel() {
	if t.more != nil && t.more.scope != nil {
		t.more.scope.cancel()
	}
}

// Scope runs f with a scope of its own for the threads that f starts with t.Go, and returns when
// these have ended. It returns the error of f, or theirs if f's is nil or an ErrCanceled. If f
// fails or panics, they are canceled.
func (t *Thread) Scope(f func() error) error {
	m := t.extra()
	outer := m.scope
	m.scope = &scope{owner: t, outer: outer}
	defer func() { m.scope = outer }()
	return t.joined(f)
}

// joined runs f, and returns when the threads of the present scope have ended.
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

// End returns a promise that is settled when t has ended, with the error that t has ended with. It
// is called on t's loop. Threads of any loop can await the promise.
func (t *Thread) End() *Promise[struct{}] {
	m := t.extra()
	if m.end == nil {
		m.end = new(Promise[struct{}])
		if t.own.flags&ended != 0 {
			m.end.settle(struct{}{}, m.err, nil)
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
		t.cancel()
	}
}

// cancel makes the waits of t, a member of a scope, and of those within its scopes, return
// ErrCanceled.
func (t *Thread) cancel() {
	if t.own.flags&ended != 0 {
		return
	}
	t.own.flags |= canceled
	t.stopWaiting(byCancel)
	for inner := t.more.scope; inner != nil; inner = inner.outer {
		inner.cancel()
	}
}

// fail cancels the scope because of the error of a member. It cancels the scopes within it that its
// owner has opened, and the owner itself.
func (s *scope) fail(err error) {
	s.err = err
	s.cancel()
	for inner := s.owner.more.scope; inner != nil && inner != s; inner = inner.outer {
		inner.cancel()
	}
	if !s.owner.more.despite {
		s.owner.stopWaiting(byCancel)
	}
}

// WaitDespiteFailures decides whether t's waits go on, and begin, although threads that it has
// started have failed and have not been joined. It is for code that waits on t's behalf, and sets
// back what was before t starts other threads. It returns the previous choice. Only t may call it.
func (t ThreadLayer) WaitDespiteFailures(on bool) (was bool) {
	if t.more == nil { // it has started none
		return false
	}
	was, t.more.despite = t.more.despite, on
	return was
}

// failed reports whether a thread of one of t's scopes has failed and Join has not returned the
// error yet.
func (t *Thread) failed() bool {
	if t.more != nil && !t.more.despite {
		for s := t.more.scope; s != nil; s = s.outer {
			if s.err != nil {
				return true
			}
		}
	}
	return false
}

// membersPeerLeft notes for the threads that t has started that the client has left.
func (t *Thread) membersPeerLeft() {
	if t.more == nil {
		return
	}
	for s := t.more.scope; s != nil; s = s.outer {
		for member := range s.members {
			member.own.flags |= finished
			if member.own.flags&keepWaiting == 0 {
				member.stopWaiting(byClientGone)
			}
			member.membersPeerLeft()
		}
	}
}

func (t *Thread) stopWaiting(why wakeReason) {
	if t.own.flags&(suspended|notifiable) != 0 {
		t.loop.ready(t, why)
	}
}

func (l *Loop) killMembers(s *scope) {
	for ; s != nil; s = s.outer {
		s.canceled = true // their errors do not count
		for len(s.members) > 0 {
			for t := range s.members {
				l.kill(t)
			}
		}
	}
}

// memberTask is what a thread within a scope does.
type memberTask struct {
	thread *Thread
	f      func(t *Thread) error
	settle func(err error) // takes the thread's error; nil: the scope takes it
}

// Run implements Task.
func (m *memberTask) Run(t *Thread) coro.Code {
	t.more.err = ErrExited
	t.more.err = t.joined(func() (err error) {
		defer func() {
			if t.co.Killed() {
				return // without a result; the coroutine logs the panic of a deferred call
			}
			if p := recover(); p != nil {
				err = &PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
		return m.f(t)
	})
	return coro.Abort
}

// ClientGone implements Task; it has no peer of its own.
func (m *memberTask) ClientGone() {}

// Ended implements Task.
func (m *memberTask) Ended() {
	t := m.thread
	s, err := t.more.member, t.more.err
	delete(s.members, t)
	if m.settle != nil {
		m.settle(err)
	} else if err != nil && !s.canceled {
		s.fail(err)
	}
	if len(s.members) == 0 {
		s.owner.notify()
	}
}

package loop

import (
	"container/list"
	"context"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/timeoutwheel"
)

type clientGone struct{}

// Error implements error.
func (clientGone) Error() string { return "client gone" }

// Is says which error of the standard library it is.
func (clientGone) Is(err error) bool { return err == context.Canceled }

// Task is what a thread does. It may have any of these methods besides:
//
//	// Client returns the address of the client for whom the task works: when all workers are
//	// busy, clients take turns. It is called by the thread.
//	Client() netip.Addr
//
//	// Flush is called by the thread before it waits for anything but its own descriptor, if the
//	// thread has asked for it (ThreadLayer.FlushBeforeWait). It may wait. So small answers go out
//	// together.
//	Flush()
//
//	// IdleTimedOut is called on the loop when the thread's idle time is over. It returns how long
//	// the thread may be idle from now on; 0: the thread ends.
//	IdleTimedOut() time.Duration
//
//	// BeforeEnd is called on the loop when the idle time is over, when EndIdle has chosen the
//	// thread, or when a stop kills it, before the descriptor is closed. It must not wait.
//	BeforeEnd()
//
//	// Notified is called on the loop, in place of Run, when a Broadcast notifies the thread, which
//	// is idle and has called WakeOnNotify, whose peer is there, and whose descriptor is d. It must
//	// not wait. It reports whether nothing is left to do; otherwise Run is called as well. So a
//	// message to thousands of idle connections does not switch to thousands of stacks.
//	Notified(d *Descriptor) bool
type Task interface {
	// Run is the thread's code, on a coroutine. It returns Abort, which ends the thread and closes its
	// descriptor; or WantRead, after which the record stays without a coroutine, and Run is called
	// anew when the descriptor can be read; or Suspend, after which Run is called anew when the
	// IdleTimeout has passed, whatever arrives on the descriptor; or Yield, after which it is called
	// anew after the threads of this turn (see WakeThisTurn). If Run sets an IdleTimeout and returns
	// WantRead, the thread ends when that time passes. WantWrite and WantReadWrite are as WantRead,
	// for room to write. Another socket of the thread's can have Run called, too: see
	// Descriptor.WakeOnReady. So can notifications and the IdleTimeout: see WakeOnNotify.
	Run(t *Thread) coro.Code

	// ClientGone is called on the loop, once, when the peer is seen to send no more (FIN) or to be
	// gone.
	ClientGone()

	// Ended is called on the loop after the thread's descriptor was closed.
	Ended()
}

// The optional methods of a Task.
type (
	client             interface{ Client() netip.Addr }
	flusher            interface{ Flush() }
	idleTimeoutHandler interface{ IdleTimedOut() time.Duration }
	endHandler         interface{ BeforeEnd() }
	notifyHandler      interface{ Notified(d *Descriptor) bool }
)

// FlushBeforeWait says whether t's task has output to flush before the next wait. Flush
// is called once for each call with on set.
func (t ThreadLayer) FlushBeforeWait(on bool) {
	t.own.flags &^= unflushed
	if on {
		t.own.flags |= unflushed
	}
}

// WillFlush reports whether Flush is going to be called.
func (t ThreadLayer) WillFlush() bool { return t.own.flags&unflushed != 0 }

// flush calls the task's Flush, if there is output to flush. Every wait calls it, except those for
// the thread's own descriptor, before it watches anything, because Flush may wait itself.
func (t *Thread) flush() {
	if t.own.flags&unflushed != 0 {
		t.own.flags &^= unflushed
		t.task.(flusher).Flush()
	}
}

// Thread is the record of a green thread. It may be embedded in a larger one, so that a connection
// is one object.
type Thread struct {
	own     Descriptor
	loop    *Loop
	task    Task
	co      *coro.Coro // nil while the thread is idle
	timer   timeoutwheel.Timer
	until   int64   // the limit of the present wait; the timer may be pending for an earlier time
	next    *Thread // in the run queue
	more    *more   // nil until it is needed
	idle    idleEntry
	wokenBy wakeReason
	wants   uint8            // the events of its own descriptor that are among its sources
	owner   invariants.Owner // the coroutine's goroutine

	refusals uint16 // waits that were refused, see there
	notified atomic.Bool
}

// more has the fields that few threads need.
type more struct {
	rawFDs      []*Shared  // raw descriptors, since deferred calls last ran
	calls       *calls     // off the loop, by the thread and those within its scopes
	queuedCalls *list.List // of *call, those that have not begun; dropCalls is deferred
	scope       *scope     // the innermost, of the threads that it has started
	member      *scope     // that the thread was started in; nil: in none
	bound       *Binding   // the innermost
	under       *Binding   // the innermost of member's owner when it started the thread
	ended       *Binding   // whose context has ended the last wait that returned byContext
	budget      Budget
	despite     bool // see WaitDespiteFailures
	end         *Promise[struct{}]
	err         error // with which it has ended
}

// reset makes t, which has ended, the zero Thread but for what Notify uses, loop and notified: a
// goroutine that has taken t off a list of waiters before t ended may call Notify only now.
func (t *Thread) reset() {
	t.own, t.task, t.co = Descriptor{}, nil, nil
	t.timer, t.until, t.next = timeoutwheel.Timer{}, 0, nil
	t.more, t.idle, t.wokenBy, t.wants = nil, idleEntry{}, 0, 0
	t.owner, t.refusals = invariants.Owner{}, 0
}

func (t *Thread) extra() *more {
	if t.more == nil {
		t.more = new(more)
	}
	return t.more
}

// err returns what a wait returns that has ended for the reason.
func (r wakeReason) err() error {
	switch r {
	case byTime:
		return ErrDeadlineExceeded
	case byClientGone:
		return ErrClientGone
	case byCancel:
		return ErrCanceled
	}
	return nil
}

// Attach makes t the thread of the socket fd, which must be non-blocking and belongs to t from now
// on, and calls task.Run when fd can be read. timeout is as for IdleTimeout. With an error fd is
// still the caller's: epoll_ctl's error, or net.ErrClosed if the loop's threads were killed. If
// there are duplicates of fd when the thread ends, Deregister must come first.
func (l *Loop) Attach(t *Thread, fd int, task Task, timeout time.Duration) error {
	if l.stop.killed {
		return net.ErrClosed
	}
	l.initAttached(t, fd, task)
	if err := l.add(&t.own, in); err != nil {
		return err
	}
	l.beginAttached(t, timeout)
	return nil
}

// AttachReady is Attach for a socket whose peer has probably sent something: task.Run is called in
// this turn. Epoll gets to know the socket when t first waits. If all is done before that, epoll
// never does, which saves a tenth of a connection with one request. If epoll has no room for the
// socket then (epoll_ctl(2), ENOSPC), that is logged, and t's reads find the end of the stream.
func (l LoopLayer) AttachReady(t *Thread, fd int, task Task, timeout time.Duration) error {
	if l.stop.killed {
		return net.ErrClosed
	}
	l.initAttached(t, fd, task)
	l.gen++
	t.own.gen = l.gen
	l.enterTable(&t.own)
	l.beginAttached(t, timeout)
	t.Layer().WakeThisTurn()
	return nil
}

func (l *Loop) initAttached(t *Thread, fd int, task Task) {
	t.own = Descriptor{thread: t, fd: int32(fd), flags: sole | mask(in)}
	t.loop, t.task = l, task
}

func (l *Loop) beginAttached(t *Thread, timeout time.Duration) {
	t.timer.Init((*alarm)(t))
	l.threads++
	t.Layer().IdleTimeout(timeout)
}

// Go starts a green thread that runs f, detached from the caller and without a descriptor of its
// own. The thread ends when f has returned and the threads that it has started have ended, when f
// panics, which is logged, or when the loop stops. On a loop whose threads were killed it ends
// without having begun.
func (l *Loop) Go(f func(t *Thread)) *Thread {
	return l.Layer().Start(funcTask(f))
}

// Start is Go for a task that has to know when its thread has ended: task.Ended is called also if
// the thread ends without having begun. task.Run returns Abort.
func (l LoopLayer) Start(task Task) *Thread {
	t := new(Thread)
	l.begin(t, task)
	return t
}

// begin starts a thread without a descriptor.
func (l *Loop) begin(t *Thread, task Task) {
	if l.initUnattached(t, task) {
		l.ready(t, byEvent)
	}
}

// addUnattached adds t to the threads without a descriptor.
func (l *Loop) addUnattached(t *Thread) {
	t.own.gen = uint32(len(l.unattached))
	l.unattached = append(l.unattached, t)
}

// initUnattached makes t a thread without a descriptor, and reports whether it may run.
func (l *Loop) initUnattached(t *Thread, task Task) bool {
	t.own = Descriptor{thread: t, fd: -1, flags: t.own.flags}
	if t.loop != l { // else other goroutines may read it, see reset
		t.loop = l
	}
	t.task = task
	t.timer.Init((*alarm)(t))
	l.threads++
	l.addUnattached(t)
	if l.stop.killed {
		t.extra() // has the error
		l.kill(t)
		return false
	}
	return true
}

type funcTask func(t *Thread)

func (f funcTask) Run(t *Thread) coro.Code {
	err := t.joined(func() error {
		f(t)
		return nil
	})
	if err != nil {
		t.loop.logMember(err)
	}
	return coro.Abort
}
func (funcTask) ClientGone() {}
func (funcTask) Ended()      {}

// entry and alarm are a Thread as its coroutine and the wheel see it. The methods that these call
// are not for users of a Thread, nor of a type that embeds one.
type (
	entry Thread
	alarm Thread
)

// Run implements coro.Task.
func (e *entry) Run(*coro.Coro) coro.Value {
	t := (*Thread)(e)
	t.owner.Enter()
	return coro.Make(t.task.Run(t), 0)
}

// Expire implements timeoutwheel.Expirer.
func (a *alarm) Expire() {
	t := (*Thread)(a)
	if t.until > t.loop.now {
		t.checkRawFDs()
		t.limit(t.until)
		return
	}
	// The loop may have polled for events before the peer sent something, and read the clock after
	// that: a process that was stopped in between, or a machine that slept, is late with both.
	if t.co != nil || t.own.flags&(queued|suspended|notifiable) != 0 ||
		sysio.Unread(int(t.own.fd)) {
		t.loop.ready(t, byTime)
		return
	}
	var more time.Duration
	if h, ok := t.task.(idleTimeoutHandler); ok {
		more = h.IdleTimedOut()
	}
	if more > 0 {
		t.Layer().IdleTimeout(more)
	} else {
		t.loop.dismiss(t)
	}
	if t.loop.share.count() {
		t.loop.wheel.Pause() // so threads whose input has come meanwhile are served
	}
}

// Wake calls an idle thread's task in the next turn, as if its descriptor could be read. It is
// called on the loop.
func (t ThreadLayer) Wake() {
	if t.co == nil {
		t.loop.ready(t.Thread, byEvent)
	}
}

// peerLeft calls the task's ClientGone, and ends the waits of t and its threads that are to end.
func (t *Thread) peerLeft() {
	t.task.ClientGone()
	if f := t.own.flags; f&keepWaiting == 0 && (f&suspended != 0 || t.co == nil && f&notifiable != 0) {
		t.loop.ready(t, byClientGone)
	}
	t.membersPeerLeft()
}

// SetTask makes task the task of t. The present task calls it before it returns.
func (t ThreadLayer) SetTask(task Task) { t.task = task }

// Loop returns the loop the thread lives on.
func (t *Thread) Loop() *Loop { return t.loop }

// FD returns the thread's own descriptor, -1 if it has none.
func (t *Thread) FD() int { return int(t.own.fd) }

// Descriptor returns the thread's own descriptor as its loop knows it.
func (t ThreadLayer) Descriptor() *Descriptor { return &t.own }

// Gone reports whether the peer was seen to send no more, or to have left altogether. What it sent
// before may still be unread. The peer of a thread that another has started is the peer of that
// one.
func (t *Thread) Gone() bool { return t.own.flags&finished != 0 }

// SeeGone is Gone for a thread that may not have waited yet since AttachReady: no event can have
// said that its peer sends no more, so SeeGone asks the kernel.
func (t ThreadLayer) SeeGone() bool {
	return t.Gone() ||
		t.own.fd >= 0 && t.own.edges.outside() && sysio.Ready(int(t.own.fd), rdhup) != 0
}

// HungUp reports whether t's peer was seen to have left altogether, as by a reset, so that nothing
// can be written to it any more.
func (t ThreadLayer) HungUp() bool { return t.own.edges.dead() }

// KeepWaiting says whether the thread goes on waiting after its client has left, or a context that
// it is bound to has ended (see Bind). Otherwise its waits return ErrClientGone, or the context's
// error. The result is what was said before.
func (t *Thread) KeepWaiting(on bool) (was bool) {
	was = t.own.flags&keepWaiting != 0
	t.own.flags &^= keepWaiting
	if on {
		t.own.flags |= keepWaiting
	}
	return was
}

// Defer registers f to be called by RunDeferred: at the end of the request, or of whatever else the
// thread is doing.
func (t *Thread) Defer(f func()) { t.co.Defer(f) }

// Mark returns the present height of the list of deferred calls.
func (t *Thread) Mark() int { return t.co.Mark() }

// RunDeferred calls what was deferred since mark, last first.
func (t *Thread) RunDeferred(mark int) {
	t.co.RunDeferred(mark)
	t.refusals, t.wokenBy = 0, byEvent // what comes next is another request
}

// Local returns what SetLocal has left with the coroutine that the thread runs on at present,
// perhaps for another thread: buffers that stay with a stack. It is nil for an idle thread, which
// has no coroutine.
func (t ThreadLayer) Local() any {
	if t.co == nil {
		return nil
	}
	return t.co.Local
}

// SetLocal leaves v with the coroutine.
func (t ThreadLayer) SetLocal(v any) { t.co.Local = v }

// kill ends a thread that is not running, after the threads that it has started.
func (l *Loop) kill(t *Thread) {
	if t.own.flags&ended != 0 {
		return
	}
	if t.more != nil {
		l.killMembers(t.more.scope)
	}
	if t.co != nil {
		l.current = t
		t.co.Kill()
		l.current = nil
		l.logPanic(t)
		l.pool.Put(t.co, l.now)
		t.co = nil
		t.extra()
	} else if h, ok := t.task.(endHandler); ok {
		h.BeforeEnd()
	}
	if t.more != nil {
		if _, panicked := t.more.err.(*PanicError); !panicked { // else a deferred call has panicked
			t.more.err = ErrCanceled
		}
	}
	l.end(t)
}

// dismiss ends t, which is idle.
func (l *Loop) dismiss(t *Thread) {
	if h, ok := t.task.(endHandler); ok {
		h.BeforeEnd()
	}
	l.end(t)
}

// end moves t to its last state: it closes the descriptor and frees the record.
func (l *Loop) end(t *Thread) {
	if t.own.flags&ended != 0 {
		return
	}
	t.own.flags |= ended
	l.wheel.Cancel(&t.timer)
	l.threads--
	if t.own.flags&daemon != 0 {
		t.own.flags &^= daemon
		l.daemons--
	}
	if fd := int(t.own.fd); fd >= 0 {
		l.flushBeforeRemove(&t.own)
		if t.own.flags&sole == 0 {
			l.remove(&t.own)
		}
		l.forget(&t.own)
		sysio.Close(fd)
	} else {
		n := len(l.unattached) - 1
		last := l.unattached[n]
		last.own.gen, l.unattached[t.own.gen] = t.own.gen, last
		l.unattached[n] = nil
		l.unattached = l.unattached[:n]
	}
	if m := t.more; m != nil && m.end != nil {
		m.end.settle(struct{}{}, m.err, nil)
	}
	t.task.Ended()
}

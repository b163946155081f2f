package loop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/timeoutwheel"
)

// ErrClientGone ends the wait of a thread whose peer has closed or reset the connection.
var ErrClientGone = errors.New("client gone")

// Body is what a thread does.
type Body interface {
	// Run is the thread's code, on a coroutine. Its last word is Abort, which ends the thread and closes its
	// descriptor, or WantRead, upon which the record stays without a coroutine and Run is called anew when the
	// descriptor can be read. A Timeout set before returning WantRead ends the thread when it passes.
	Run(t *Thread) coro.Code

	// Left is called on the loop, once, when the peer was seen to send no more (FIN) or to be gone.
	Left()

	// Ended is called on the loop after the thread's descriptor was closed.
	Ended()
}

// Thread is the record of a green thread. It may be embedded in a larger one, so that a connection is one object.
type Thread struct {
	own   desc
	loop  *Loop
	body  Body
	co    *coro.Coro // nil while the thread is idle
	timer timeoutwheel.Timer
	until int64   // when the present wait ends; the timer may be pending for an earlier one
	next  *Thread // in the run queue
	loan  *loan   // the descriptor it awaits
	woken reason
}

// reason is why a waiting thread goes on.
type reason uint8

const (
	wokenByEvent reason = iota
	wokenByTimer
	wokenByLeaving
)

func (r reason) err() error {
	switch r {
	case wokenByTimer:
		return os.ErrDeadlineExceeded
	case wokenByLeaving:
		return ErrClientGone
	}
	return nil
}

// Attach makes t the thread of the socket fd, non-blocking and owned by t from now on, and has b.Run called when it
// can be read. timeout is as for Timeout. On an error fd is still the caller's.
func (l *Loop) Attach(t *Thread, fd int, b Body, timeout time.Duration) error {
	t.own = desc{thread: t, fd: int32(fd), flags: mask(in | rdhup)}
	t.loop, t.body = l, b
	if err := l.add(&t.own); err != nil {
		return err
	}
	t.timer.Init((*alarm)(t))
	l.threads++
	t.Timeout(timeout)
	return nil
}

// Go starts f as a thread without a descriptor of its own.
func (l *Loop) Go(f func(t *Thread)) {
	t := &Thread{own: desc{fd: -1}, loop: l, body: funcBody(f)}
	t.own.thread = t
	t.timer.Init((*alarm)(t))
	l.threads++
	l.detached[t] = struct{}{}
	l.ready(t, wokenByEvent)
}

type funcBody func(t *Thread)

func (f funcBody) Run(t *Thread) coro.Code {
	f(t)
	return coro.Abort
}
func (funcBody) Left()  {}
func (funcBody) Ended() {}

// entry and alarm are a Thread as its coroutine and the wheel see it: the methods they call are nothing for the users of
// a Thread, nor of what embeds one.
type (
	entry Thread
	alarm Thread
)

// Run implements coro.Body.
func (e *entry) Run(*coro.Coro) coro.Value {
	t := (*Thread)(e)
	return coro.Make(t.body.Run(t), 0)
}

// Expire implements timeoutwheel.Expirer.
func (a *alarm) Expire() {
	t := (*Thread)(a)
	if t.until > t.loop.now {
		if t.until != never {
			t.loop.wheel.Add(&t.timer, t.until)
		}
		return
	}
	if t.co == nil && t.own.flags&queued == 0 {
		t.loop.end(t)
		return
	}
	t.loop.ready(t, wokenByTimer)
}

// ready puts a waiting thread into the run queue.
func (l *Loop) ready(t *Thread, why reason) {
	if t.own.flags&(queued|ended) != 0 {
		return
	}
	t.own.flags = t.own.flags.next(coro.Resume) | queued
	t.woken = why
	t.until = never
	l.runq.push(t)
}

// Wake has an idle thread's body run in the next turn, as if its descriptor could be read. It is the loop's.
func (t *Thread) Wake() {
	if t.co == nil {
		t.loop.ready(t, wokenByEvent)
	}
}

// left notes that the peer is gone.
func (t *Thread) left() {
	t.body.Left()
	if t.own.flags&(suspended|keepWaiting) == suspended {
		t.loop.ready(t, wokenByLeaving)
	}
}

// Loop returns the loop the thread lives on.
func (t *Thread) Loop() *Loop { return t.loop }

// FD returns the thread's own descriptor, -1 if it has none.
func (t *Thread) FD() int { return int(t.own.fd) }

// Gone reports that the peer was seen to send no more, or to have left altogether. What it sent before may still be
// unread.
func (t *Thread) Gone() bool { return t.own.flags&finished != 0 }

// KeepWaiting says whether the thread's waits go on after its client left; without it they end with ErrClientGone.
func (t *Thread) KeepWaiting(on bool) {
	t.own.flags &^= keepWaiting
	if on {
		t.own.flags |= keepWaiting
	}
}

// Defer has f called at the end of the request, or of whatever else the thread is at: see RunDeferred.
func (t *Thread) Defer(f func()) { t.co.Defer(f) }

// Mark returns the present height of the list of deferred calls.
func (t *Thread) Mark() int { return t.co.Mark() }

// RunDeferred calls what was deferred since mark, last first.
func (t *Thread) RunDeferred(mark int) { t.co.RunDeferred(mark) }

// Local returns what SetLocal left with the coroutine that the thread runs on at present, perhaps for another
// thread: buffers that stay with a stack.
func (t *Thread) Local() any { return t.co.Local }

// SetLocal leaves v with the coroutine.
func (t *Thread) SetLocal(v any) { t.co.Local = v }

// Timeout sets how long the thread may be idle after its body returned WantRead, counted from the beginning of the
// loop's turn; negative: for ever. The waits have limits of their own and clear it.
func (t *Thread) Timeout(d time.Duration) {
	if d < 0 {
		t.until = never
		return
	}
	// Most waits end long before their time, and the next one's is later. So the timer is left where it is until it
	// expires, perhaps for nothing, and only then moved: a connection in use costs no timer operation.
	t.until = t.loop.after(d)
	if !t.timer.Pending() || t.timer.At() > t.until {
		t.loop.wheel.Add(&t.timer, t.until)
	}
}

// never is the end of a wait without a limit.
const never = math.MaxInt64

// Yield lets the loop's other threads run; t goes on in the next turn.
func (t *Thread) Yield() { _ = t.wait(coro.Yield, -1) }

// WantRead waits until the thread's own descriptor can be read, at most d, without limit where d is negative. It
// returns nil, also when the peer is gone (a read tells more), or os.ErrDeadlineExceeded.
func (t *Thread) WantRead(d time.Duration) error { return t.want(coro.WantRead, d) }

// WantWrite waits until it can be written.
func (t *Thread) WantWrite(d time.Duration) error { return t.want(coro.WantWrite, d) }

// WantReadWrite waits until it can be read or written.
func (t *Thread) WantReadWrite(d time.Duration) error { return t.want(coro.WantReadWrite, d) }

func (t *Thread) want(code coro.Code, d time.Duration) error {
	if t.own.fd < 0 {
		panic(fmt.Sprintf("loop: %v by a thread without a descriptor", code))
	}
	return t.wait(code, d)
}

// Sleep waits for d, and returns nil, or ErrClientGone as soon as the thread's client leaves (see KeepWaiting).
func (t *Thread) Sleep(d time.Duration) error {
	t.loop.tick() // what the thread did before may have taken its time
	if err := t.suspend(max(d, 0)); err != os.ErrDeadlineExceeded {
		return err
	}
	return nil
}

// suspend waits until the loop calls ready, at most d.
func (t *Thread) suspend(d time.Duration) error {
	if t.own.flags&(finished|keepWaiting) == finished {
		return ErrClientGone
	}
	return t.wait(coro.Suspend, d)
}

func (t *Thread) wait(code coro.Code, d time.Duration) error {
	if invariants.Enabled && t.loop.current != t {
		panic("loop: a thread waits that does not run")
	}
	t.Timeout(d)
	t.woken = wokenByEvent
	t.co.Yield(coro.Make(code, 0))
	return t.woken.err()
}

// kill ends a thread that waits.
func (l *Loop) kill(t *Thread) {
	if t.loan != nil {
		l.repay(t)
	}
	if t.co != nil {
		l.current = t
		t.co.Kill()
		l.current = nil
		l.logPanic(t.co)
		l.pool.Put(t.co, l.now)
		t.co = nil
	}
	l.end(t)
}

// end closes the thread's descriptor and frees its record.
func (l *Loop) end(t *Thread) {
	if t.own.flags&ended != 0 {
		return
	}
	t.own.flags |= ended
	l.wheel.Cancel(&t.timer)
	l.threads--
	if fd := int(t.own.fd); fd >= 0 {
		l.remove(&t.own)
		l.forget(&t.own)
		sysio.Close(fd)
	} else {
		delete(l.detached, t)
	}
	t.body.Ended()
}

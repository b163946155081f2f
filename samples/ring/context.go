package main

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/samples/ring/uring"
	"github.com/lwango/lwango/timeoutwheel"
)

// Context runs tasks on one thread. A task waits for an operation that the ring has for it, for
// another task, or for a time. Its methods, but for Close, are for the tasks that it runs.
type Context struct {
	ring     *uring.Ring
	received *uring.Buffers
	blocks   blocks
	wheel    *timeoutwheel.Wheel
	began    time.Time
	now      time.Duration // since began, in this turn
	coros    coro.Pool

	running *fiber
	ready   []*fiber // run in this turn or in the next one
	spare   []*fiber // the other array for ready
	fibers  []*fiber // by number - 1
	free    []*fiber // ended ones, to be used again
}

// Sizes of a Context.
const (
	entries     = 1024 // of the submission queue
	completions = 4096
	buffers     = 256 // for what arrives; they come back within the turn
	bufferSize  = 16 << 10
	receiving   = 0 // the group of these buffers
)

// NewContext makes a Context with so many blocks for output, for the calling goroutine, which must
// be locked to its thread.
func NewContext(outputs int) (c *Context, err error) {
	c = &Context{wheel: timeoutwheel.New(0), began: time.Now(),
		coros: coro.Pool{Handoff: coro.Direct}}
	if c.ring, err = uring.New(entries, completions); err != nil {
		return nil, err
	}
	if c.received, err = c.ring.NewBuffers(receiving, buffers, bufferSize); err == nil {
		if c.blocks, err = newBlocks(outputs); err != nil {
			_ = c.received.Close()
		}
	}
	if err != nil {
		_ = c.ring.Close()
		return nil, err
	}
	return c, nil
}

// Close gives back the memory. All tasks have ended, so no operation is under way that could still
// write to it.
func (c *Context) Close() error {
	c.coros.Close()
	_ = c.ring.Enter(0, 0) // descriptors that are still to be closed
	return errors.Join(c.received.Close(), c.ring.Close(), c.blocks.close())
}

// fiber is a task that runs, with its coroutine.
type fiber struct {
	c      *Context
	number uint64 // the UserData of its operation; 0 is for those that nobody waits for
	body   func()
	coro   *coro.Coro
	done   func(error) // called when it has ended; the error is its panic

	state   fiberState
	result  uring.Completion
	name    []byte // of Open
	how     unix.OpenHow
	timer   timeoutwheel.Timer
	expired bool  // the timer has ended the wait
	cause   error // why the fiber is to end, or nil
}

type fiberState uint8

const (
	runnable  fiberState = iota // in ready, or running
	operating                   // an operation is under way, which alone can end the wait
	parked                      // waits for another fiber or its timer
)

// start makes a fiber, which begins when its turn comes.
func (c *Context) start(body func(), done func(error)) *fiber {
	var f *fiber
	if last := len(c.free) - 1; last >= 0 {
		f, c.free = c.free[last], c.free[:last]
	} else {
		f = &fiber{c: c, number: uint64(len(c.fibers)) + 1}
		f.timer.Init(f)
		c.fibers = append(c.fibers, f)
	}
	f.body, f.done, f.coro = body, done, c.coros.Get()
	c.ready = append(c.ready, f)
	return f
}

// Run implements coro.Task.
func (f *fiber) Run(*coro.Coro) coro.Value {
	f.body()
	return coro.Make(coro.Abort, 0)
}

// run lets a fiber run until it waits or ends.
func (c *Context) run(f *fiber) {
	c.running = f
	if f.coro.Parked() {
		f.coro.Start(f)
	} else {
		f.coro.Resume()
	}
	c.running = nil
	switch {
	case f.coro.Dead():
		panic("a task has called runtime.Goexit, and nothing can end it in order")
	case !f.coro.Parked():
		return
	}
	var err error
	if p := f.coro.Panic(); p != nil {
		err = fmt.Errorf("%w\n%s", p, p.Stack)
	}
	done := f.done
	c.coros.Put(f.coro, 0)
	f.coro, f.body, f.done, f.cause, f.expired = nil, nil, nil, nil, false
	c.free = append(c.free, f)
	done(err)
}

// drive takes turns until a fiber has ended: it runs what is ready, submits what that has asked
// for, and waits for completions, all by one system call.
func (c *Context) drive(ended *bool) error {
	for {
		turn := c.ready
		c.ready = c.spare[:0]
		for _, f := range turn {
			c.run(f)
		}
		clear(turn)
		c.spare = turn
		if *ended {
			return nil
		}
		wait, timeout := uint32(1), time.Duration(-1)
		if len(c.ready) > 0 {
			wait = 0
		} else if at, ok := c.wheel.Next(); ok {
			timeout = max(0, time.Duration(at)*time.Millisecond-time.Since(c.began))
		}
		if err := c.ring.Enter(wait, timeout); err != nil {
			return err
		}
		c.reap()
		c.now = time.Since(c.began)
		c.wheel.Advance(c.now.Milliseconds())
	}
}

// reap makes those fibers ready whose operations have completed.
func (c *Context) reap() {
	c.ring.Reap(func(done uring.Completion) {
		if done.UserData == 0 {
			return
		}
		f := c.fibers[done.UserData-1]
		f.result = done
		f.wake()
	})
}

func (f *fiber) wake() {
	f.state = runnable
	f.c.wheel.Cancel(&f.timer)
	f.c.ready = append(f.c.ready, f)
}

// entry returns an entry of the ring. If there is none, it submits those there are.
func (c *Context) entry() *uring.Entry {
	for {
		if e := c.ring.Next(); e != nil {
			return e
		}
		if err := c.ring.Enter(0, 0); err != nil {
			panic(err) // the ring is unusable
		}
		c.reap() // or the kernel takes no more
	}
}

// ErrTimeout says that an operation has taken too long.
var ErrTimeout = errors.New("timeout")

// operate makes an entry the running fiber's operation, and waits until it has completed; timeout 0
// is none. What fill lets the entry point to is in use by the kernel until operate returns, also if
// the fiber is canceled or the time is over: operate cancels the operation then, and goes on
// waiting.
func (c *Context) operate(
	timeout time.Duration, fill func(*uring.Entry),
) (uring.Completion, error) {
	f := c.running
	if f.cause != nil {
		return uring.Completion{}, f.cause
	}
	e := c.entry()
	fill(e)
	e.UserData = f.number
	f.wait(operating, timeout)
	if f.result.Result < 0 {
		return f.result, f.failure()
	}
	return f.result, nil
}

// failure is the error of an operation that has failed.
func (f *fiber) failure() error {
	err := errnoOf(f.result.Result)
	if err == error(unix.ECANCELED) || err == error(unix.EINTR) { // of one of the kernel's threads
		switch {
		case f.cause != nil:
			return f.cause
		case f.expired:
			return ErrTimeout
		}
	}
	return err
}

// wait lets others run until the fiber is woken. It does not look at the cause.
func (f *fiber) wait(state fiberState, timeout time.Duration) {
	f.state, f.expired = state, false
	if timeout > 0 {
		f.c.wheel.Add(&f.timer, (f.c.now + timeout + time.Millisecond - 1).Milliseconds())
	}
	f.coro.Yield(coro.Make(coro.Suspend, 0))
}

// Expire implements timeoutwheel.Expirer.
func (f *fiber) Expire() {
	f.expired = true
	f.interrupt()
}

// cancel lets the fiber end: its wait ends, and each later operation fails with the cause.
func (f *fiber) cancel(cause error) {
	if f.coro != nil && f.cause == nil {
		f.cause = cause
		f.interrupt()
	}
}

func (f *fiber) interrupt() {
	switch f.state {
	case operating:
		f.c.entry().Cancel(f.number)
	case parked:
		f.wake()
	}
}

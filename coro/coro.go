package coro

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Task is what a coroutine runs. The Value that it returns is for the loop. After that the
// coroutine is parked and can be started with another task.
type Task interface {
	Run(c *Coro) Value
}

// PanicError is a panic caught in a coroutine.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the panicking goroutine, as runtime/debug.Stack prints it
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if that is an error, and otherwise nil.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

type state uint8

const (
	parked  state = iota // no task; Start may be called
	running              // has a task: executing, or waiting in Yield
	dead                 // the goroutine has returned, or called runtime.Goexit
)

// Coro is a coroutine. One goroutine, the loop's, calls New, Start, Resume, Kill and Close. Only
// one side runs at a time, which guards every field.
type Coro struct {
	transport

	// Local is for the supplier of the tasks. What it keeps here, such as buffers, stays with the
	// stack from one task to the next.
	Local any

	// Yielded is what the task has yielded last, and Since when, by the clock of the loop that sets
	// it: for those that look at what waits.
	Yielded Value
	Since   int64

	next     func(*Coro, Value) Task // see New
	task     Task
	deferred []func()
	panicked *PanicError
	state    state
	killed   bool // Yield must not wait any more
	returned bool // main has returned, without runtime.Goexit
}

// New makes a parked coroutine.
//
// next, if not nil, is called on the coroutine when a task has returned, with the Value that it has
// returned. It can supply another task, which then runs at once. In this way tasks that do not
// wait run one after the other, without a handoff between them. The Value of a task that is
// followed by another never reaches Start or Resume, so next has to act on it.
func New(h Handoff, next func(c *Coro, v Value) Task) *Coro {
	c := &Coro{next: next}
	c.begin(h, c.main)
	return c
}

// Start runs a task in a parked coroutine, and then the tasks that next supplies. It returns when
// one of them yields, or when the last one has returned.
func (c *Coro) Start(task Task) Value {
	if c.state != parked {
		panic("coro: Start of a coroutine that is not parked")
	}
	c.task, c.state, c.panicked = task, running, nil
	return c.switchIn()
}

// Resume lets a coroutine that waits in Yield go on. It returns when Start would.
func (c *Coro) Resume() Value {
	if c.state != running {
		panic("coro: Resume of a coroutine without a task")
	}
	return c.switchIn()
}

// Parked reports whether the task has returned or panicked, so that Start may be called again.
func (c *Coro) Parked() bool { return c.state == parked }

// Dead reports whether the goroutine is no more: it was killed or closed, or the task has called
// runtime.Goexit.
func (c *Coro) Dead() bool { return c.state == dead }

// Killed reports whether Kill was called, so that nothing of the task is left but its deferred
// calls.
func (c *Coro) Killed() bool { return c.killed }

// Panic returns the panic of the last task, or nil.
func (c *Coro) Panic() *PanicError { return c.panicked }

// Yield hands v to the loop and waits to be resumed. Only the task's own goroutine may call it.
//
// In a killed coroutine it does not return. It unwinds the goroutine by runtime.Goexit, and does so
// again in every deferred call that tries to wait. A panic would not do, because recover swallows
// it, and text/template turns it into an error.
func (c *Coro) Yield(v Value) {
	if !c.killed {
		c.switchOut(v)
	}
	if c.killed {
		runtime.Goexit()
	}
}

// Kill unwinds a coroutine that waits in Yield: its deferred calls run, without waiting, and then
// its goroutine is no more. A task that spins for ever in a deferred call holds the caller for
// ever.
func (c *Coro) Kill() {
	c.killed = true
	switch c.state {
	case parked:
		c.Close()
	case running:
		c.switchIn()
	}
}

// RunFinal runs a task in a parked coroutine as if the coroutine had been killed: the task and its
// deferred calls run without waiting, and then the goroutine returns.
func (c *Coro) RunFinal(task Task) {
	c.killed = true
	c.Start(task)
	c.Close()
}

// Close lets the goroutine of a parked coroutine return.
func (c *Coro) Close() {
	if c.state == parked {
		c.task = nil
		c.switchIn()
	}
}

// main is the goroutine: it runs one task after another, until it is resumed without one.
func (c *Coro) main() {
	defer c.end()
	for c.task != nil {
		v := c.runTask()
		if c.next != nil {
			if c.task = c.next(c, v); c.task != nil {
				c.panicked = nil
				continue
			}
		}
		c.task, c.state = nil, parked
		c.switchOut(v)
	}
	c.returned = true
}

// end runs when main is left, in whichever way.
func (c *Coro) end() {
	c.state, c.task, c.Local = dead, nil, nil
	c.switchFinal(Make(Abort, 0), !c.returned)
}

// Dispose must be called by the loop, once for each coroutine that it finds dead.
func (c *Coro) Dispose() {
	if !c.returned {
		c.dispose()
	}
}

func (c *Coro) runTask() (v Value) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked = &PanicError{Value: p, Stack: debug.Stack()}
			v = Make(Abort, 0)
		}
	}()
	defer c.RunDeferred(0)
	return c.task.Run(c)
}

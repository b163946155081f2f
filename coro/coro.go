package coro

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Body is what a coroutine runs. The Value it returns is its last word to the loop, after which the coroutine is
// parked and can be started with another body.
type Body interface {
	Run(c *Coro) Value
}

// PanicError is a panic caught in a coroutine.
type PanicError struct {
	Value any    // what was given to panic
	Stack []byte // of the panicking goroutine, as runtime/debug.Stack prints it
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap gives the panic's value where that was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

type state uint8

const (
	parked  state = iota // no body; Start may be called
	running              // has a body: executing, or waiting in Yield
	dead                 // the goroutine has ended
)

// Coro is a coroutine. One goroutine, the loop's, calls New, Start, Resume, Kill and Close; only one side runs
// at a time, which is what guards every field.
type Coro struct {
	transport

	// Local is for whoever supplies the bodies: what it keeps here (buffers, say) stays with the stack from one
	// body to the next.
	Local any

	next     func(*Coro, Value) Body // see New
	body     Body
	deferred []func()
	panicked *PanicError
	state    state
	killed   bool // Yield must not wait any more
	returned bool // main came to its end without runtime.Goexit
}

// New makes a parked coroutine.
//
// next, if not nil, is called on the coroutine when a body has ended, with its last word, and can give it another one
// to go on with at once. Bodies that do not wait are run in a row that way, without a handoff between them. The Value
// of a body that is followed by another never reaches Start or Resume; next has to act on it.
func New(h Handoff, next func(c *Coro, v Value) Body) *Coro {
	c := &Coro{next: next}
	c.begin(h, c.main)
	return c
}

// Start runs b in a parked coroutine until it, or one that follows it, yields, or the last of them returns.
func (c *Coro) Start(b Body) Value {
	if c.state != parked {
		panic("coro: Start of a coroutine that is not parked")
	}
	c.body, c.state, c.panicked = b, running, nil
	return c.switchIn()
}

// Resume lets a coroutine that waits in Yield go on; it returns as Start does.
func (c *Coro) Resume() Value {
	if c.state != running {
		panic("coro: Resume of a coroutine without a body")
	}
	return c.switchIn()
}

// Parked reports that the body has returned (or panicked) and Start may be called again.
func (c *Coro) Parked() bool { return c.state == parked }

// Dead reports that the goroutine has ended: killed, closed, or left by the body's own runtime.Goexit.
func (c *Coro) Dead() bool { return c.state == dead }

// Killed reports that Kill was called, and that the body has nothing left but its deferred calls.
func (c *Coro) Killed() bool { return c.killed }

// Panic returns the panic that ended the last body, or nil.
func (c *Coro) Panic() *PanicError { return c.panicked }

// Yield hands v to the loop and waits to be resumed. Only the body's own goroutine may call it.
//
// In a killed coroutine it does not return: it unwinds the goroutine by runtime.Goexit, and does so again in every
// deferred call that tries to wait. A panic would not do, because recover swallows it, and text/template turns it
// into an error.
func (c *Coro) Yield(v Value) {
	if !c.killed {
		c.switchOut(v)
	}
	if c.killed {
		runtime.Goexit()
	}
}

// Kill ends a coroutine that waits in Yield: its deferred calls run, without waiting, and then its goroutine ends.
// A body that spins in its deferred calls for ever holds the caller for ever.
func (c *Coro) Kill() {
	c.killed = true
	switch c.state {
	case parked:
		c.Close()
	case running:
		c.switchIn()
	}
}

// Close ends a parked coroutine.
func (c *Coro) Close() {
	if c.state == parked {
		c.body = nil
		c.switchIn()
	}
}

// main is the goroutine: one body after another, until it is resumed without one.
func (c *Coro) main() {
	defer c.end()
	for c.body != nil {
		v := c.runBody()
		if c.next != nil {
			if c.body = c.next(c, v); c.body != nil {
				c.panicked = nil
				continue
			}
		}
		c.body, c.state = nil, parked
		c.switchOut(v)
	}
	c.returned = true
}

// end runs when main is left, whichever way.
func (c *Coro) end() {
	c.state, c.body, c.Local = dead, nil, nil
	c.switchFinal(Make(Abort, 0), !c.returned)
}

// Dispose must be called by the loop once for each coroutine it finds dead.
func (c *Coro) Dispose() {
	if !c.returned {
		c.dispose()
	}
}

func (c *Coro) runBody() (v Value) {
	defer func() {
		if p := recover(); p != nil {
			c.panicked = &PanicError{Value: p, Stack: debug.Stack()}
			v = Make(Abort, 0)
		}
	}()
	defer c.RunDeferred(0)
	return c.body.Run(c)
}

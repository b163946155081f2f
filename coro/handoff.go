package coro

import (
	"fmt"
	"iter"
)

// Handoff is the way control passes between a loop and its coroutines.
type Handoff uint8

const (
	// Direct passes values through the standard library's iter.Pull, which switches goroutines
	// without the scheduler. It is the default: it is some four times quicker than channels, and it
	// wakes no idle processor. It depends on iter.Pull staying so.
	//
	// A task that has called runtime.LockOSThread, and not runtime.UnlockOSThread, when it waits or
	// returns makes the process exit ("fatal error: coro: OS thread locking must match locking at
	// coroutine creation"; the stack below it names the task's call, and what to use instead).
	// Nothing can recover from that. A library that locks threads and calls back does the same, as
	// bindings to C libraries do.
	Direct Handoff = iota
	// Channel passes values over a pair of unbuffered channels: a round trip is two goroutine
	// switches through the scheduler. It is for tasks that lock their OS thread, for which a round
	// trip takes several times as long.
	Channel
)

// ParseHandoff reads the configuration's names, "direct" and "channel".
func ParseHandoff(s string) (Handoff, error) {
	switch s {
	case "channel":
		return Channel, nil
	case "direct":
		return Direct, nil
	}
	return 0, fmt.Errorf("handoff %q: want \"direct\" or \"channel\"", s)
}

func (h Handoff) String() string {
	if h == Channel {
		return "channel"
	}
	return "direct"
}

// transport is the state of one handoff. Either the channels are set or the functions.
type transport struct {
	resumed chan struct{}
	yielded chan Value

	next  func() (Value, bool)
	stop  func()
	yield func(Value) bool
}

// begin makes the goroutine, which runs main at the first switchIn.
func (tr *transport) begin(h Handoff, main func()) {
	if h == Direct {
		tr.next, tr.stop = iter.Pull(func(yield func(Value) bool) {
			tr.yield = yield
			main()
		})
		return
	}
	tr.resumed, tr.yielded = make(chan struct{}), make(chan Value)
	go func() {
		<-tr.resumed
		main()
	}()
}

// switchIn runs the coroutine until its next switchOut or switchFinal. It is the loop's half.
func (tr *transport) switchIn() Value {
	if tr.next != nil {
		v, _ := tr.next() // after a plain return of main v is 0, which is Abort
		return v
	}
	tr.resumed <- struct{}{}
	return <-tr.yielded
}

// switchOut hands v to the loop and returns at the next switchIn. It is the coroutine's half.
func (tr *transport) switchOut(v Value) {
	if tr.yield != nil {
		tr.ifOSThreadIsLockedUseHandoffChannelOrAwait(v)
		return
	}
	tr.yielded <- v
	<-tr.resumed
}

// switchFinal hands v to the loop from the last deferred call of main. After that the coroutine
// does nothing that the loop could notice. goexit says that main was left by runtime.Goexit.
// iter.Pull would pass a Goexit on to the caller of next, which is the loop. So the coroutine stays
// suspended here, and dispose unwinds it on another goroutine.
func (tr *transport) switchFinal(v Value, goexit bool) {
	switch {
	case tr.yielded != nil:
		tr.yielded <- v
	case goexit:
		tr.ifOSThreadIsLockedUseHandoffChannelOrAwait(v)
	}
}

// ifOSThreadIsLockedUseHandoffChannelOrAwait hands v to the loop. If the goroutine has locked its
// OS thread, the runtime ends the process here, and does not say what to do about it. Nothing can
// tell that before, at the price of a handoff. But the runtime prints the stack, and in it this
// name.
func (tr *transport) ifOSThreadIsLockedUseHandoffChannelOrAwait(v Value) { tr.yield(v) }

// dispose unwinds what switchFinal has left suspended. stop passes the Goexit on to its own
// goroutine, so it gets one to itself.
func (tr *transport) dispose() {
	if tr.stop != nil {
		go tr.stop()
	}
}

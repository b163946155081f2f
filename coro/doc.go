// Package coro gives green threads a place to run: goroutines that move only between Resume and
// Yield.
//
//	c := coro.New(coro.Direct, nil)
//	v := c.Start(task) // runs until task.Run yields or returns
//	for v.Code() != coro.Abort {
//		// wait for what v says
//		v = c.Resume()
//	}
//	c.Close()
//
// A Coro is a goroutine with a stack worth keeping. Start gives it a task, and Resume lets it go on
// until it yields; the goroutine that calls them waits meanwhile. So of a loop and all its
// coroutines exactly one runs at any time, and what belongs to the loop needs no lock: the handoff
// orders all memory accesses, and the race detector sees that.
//
// The package knows nothing of I/O. A task yields a Value, which is a code and the descriptor that
// it may concern. Their meaning is package loop's.
//
// Control passes in one of two ways. Direct is the default. Channel is for tasks that lock their
// OS thread, which with Direct ends the process.
//
// All methods of a Coro but Yield, Defer, Mark and RunDeferred are for the loop. Those four are for
// the task.
//
//	value.go    codes and the 64-bit value
//	coro.go     Start, Resume, Yield, Kill and the life of a coroutine's goroutine
//	handoff.go  the two ways of passing control: channels and iter.Pull
//	defer.go    deferred calls
//	pool.go     parked coroutines, ready for the next task
package coro

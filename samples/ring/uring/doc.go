// Package uring is io_uring(7) by system calls: two queues in memory that the process shares with
// the kernel.
//
//	r, err := uring.New(256, 1024)
//	e := r.Next()           // an entry of the submission queue
//	e.Read(fd, p, 0)        // what is to be done
//	e.UserData = 1          // comes back with the completion
//	err = r.Enter(1, -1)    // submits all entries, and waits for one completion
//	r.Reap(func(c uring.Completion) { ... })
//	err = r.Close()
//
// The kernel takes an entry when Enter submits it, and what the entry points to must stay where it
// is until its completion has come. A cancellation changes nothing about that: the operation ends
// when its own completion comes. What the kernel writes to is memory of Map, and not of Go's heap,
// so the garbage collector has no say in its life.
//
// A Ring belongs to one goroutine, which has called runtime.LockOSThread: the kernel accepts the
// entries of the thread that has made the ring alone, and cancels what a thread has submitted when
// the thread ends.
//
//	abi.go      what the kernel's header defines
//	ring.go     the two queues
//	entry.go    operations
//	buffers.go  buffers that the kernel chooses of when bytes arrive
//	errors.go   why there is no ring
package uring

// Package loop runs green threads over epoll: sequential code that waits for descriptors and timers by yielding to
// its loop, which resumes it when the kernel says so.
//
// A Loop has an epoll descriptor, an eventfd, a timer wheel and a table of descriptors, and belongs to the
// goroutine that calls Run. A Thread is a green thread; everything that waits is one, the accepting of connections
// included. Its record stays when its coroutine goes: a thread whose Body returned WantRead (an idle connection)
// holds no goroutine, and the next event runs the Body again on whichever coroutine is free.
//
// A program that is going to run n loops calls Reserve(n) first, which sees to it that there are more processors (GOMAXPROCS)
// than loops: goroutines beside the loops need one.
//
// Unless a method says otherwise, methods of a Loop are called on the loop: by its threads, by functions given to
// Post, or before Run. Methods of a Thread are called by that thread, on its own coroutine. Post and Stop are
// for any goroutine.
//
// A thread waits for a descriptor (AwaitRead, ReadFD), for a function that blocks (Await), for threads that it has started
// (Go, Join), for what somebody else will bring (Promise, FromChan), or for any mix of these and of other packages'
// Sources (AwaitAny, AwaitAll). Every wait has a limit, and ends when the thread's client leaves or its scope is canceled.
//
//	loop.go      the Loop, its turn, Run
//	flags.go     a descriptor's state and the tables that map a yielded code to the next one
//	interest.go  wanted and armed interest, epoll_ctl, what an event does
//	thread.go    Thread: start, waits, end
//	shared.go    sockets that any thread of the loop may wait for
//	socket.go    reads and writes of sockets, which tell the loop what is left to wait for
//	loan.go      waiting for a descriptor by its bare number
//	loan_io.go   system calls on such a descriptor that try, wait and try again
//	source.go    waiting for any or all of several things; Source, open to other packages
//	readiness.go a descriptor as a source
//	timer.go     a point in time as a source
//	chan.go      a Go channel as a source
//	promise.go   results that are still to come
//	waiters.go   the threads that wait for a promise
//	call.go      functions that may block, off the loop
//	scope.go     threads that others have started, and that end before them
//	post.go      functions from other goroutines
//	accept.go    the thread that accepts connections
//	listen.go    listening sockets
//	idle.go      idle threads, which may have to give way
//	stop.go      the orderly stop
//	cpus.go      how loops and other goroutines share the processors
//	watchdog.go  what holds a loop for too long is logged
//	culprit.go   whose stack that is
package loop

// Package loop runs green threads over epoll: sequential code that waits for descriptors and timers by yielding to
// its loop, which resumes it when the kernel says so.
//
// A Loop has an epoll descriptor, an eventfd, a timer wheel and a table of descriptors, and belongs to the
// goroutine that calls Run. A Thread is a green thread; everything that waits is one, the accepting of connections
// included. Its record stays when its coroutine goes: a thread whose Body returned WantRead (an idle connection)
// holds no goroutine, and the next event runs the Body again on whichever coroutine is free.
//
// Unless a method says otherwise, methods of a Loop are called on the loop: by its threads, by functions given to
// Post, or before Run. Methods of a Thread are called by that thread, on its own coroutine. Post and Stop are
// for any goroutine.
//
// A thread waits for a descriptor (AwaitRead, ReadFD), for a function that blocks (Await), for other threads (Go, Join),
// for what somebody else will bring (Promise, FromChan), or for any mix of these and of other packages' Sources
// (AwaitAny, AwaitAll). Every wait ends when its time is over, when the thread's client leaves, and when the scope that
// the thread was started in is canceled.
//
//	loop.go      the Loop, its turn, Run
//	flags.go     a descriptor's state and the tables that map a yielded code to the next one
//	interest.go  wanted and armed interest, epoll_ctl, what an event does
//	thread.go    Thread: start, waits, end
//	scope.go     threads that others have started, and their end
//	socket.go    sockets: reading, writing, and waiting for those that are no thread's own
//	await.go     waiting for descriptors by their numbers
//	fdio.go      reading and writing them
//	source.go    waiting for several things at once
//	promise.go   results that are still to come
//	timer.go     points in time, as a Source
//	chan.go      Go channels, as a Source
//	call.go      functions off the loop
//	post.go      functions from other goroutines
//	accept.go    the thread that accepts connections
//	listen.go    listening sockets
//	stop.go      the orderly stop
package loop

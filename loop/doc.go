// Package loop runs green threads over epoll: sequential code that waits for descriptors and timers
// by yielding to its loop, which resumes it when the kernel says so.
//
//	loop.Reserve(1)
//	l, err := loop.New(loop.Options{})
//	if err != nil {
//		return err
//	}
//	l.Go(func(t *loop.Thread) {
//		n, err := t.ReadFD(time.Second, fd, buf) // tries, waits, tries again
//		...
//	})
//	return l.Run() // until all threads have ended
//
// A handler of package lwango runs on such a thread already, which is its Request's.
//
// Every wait takes a limit of time, and returns early when the thread's client leaves or its scope
// is canceled.
//
// A Loop has an epoll descriptor, an eventfd, a timer wheel and a table of descriptors, and belongs
// to the goroutine that Run has started. A Thread is a green thread. Everything that waits is one,
// the accepting of connections included. Its record stays when its coroutine goes: a thread whose
// Task has returned WantRead (an idle connection) holds no goroutine, and the next event calls the
// Task again on whichever coroutine is free. With WakeOnNotify, so does what wakes a thread that
// waits in AwaitAny: an idle thread may be subscribed to topics, and have a time at which it goes
// on.
//
// A program that is going to run n loops calls Reserve(n) first. Reserve sets GOMAXPROCS so that
// there are more processors than loops: goroutines beside the loops need one.
//
// A thread must not have locked its OS thread (runtime.LockOSThread) when it waits or its Task
// returns, unless Options.Handoff is coro.Channel: with coro.Direct, the default, that ends the
// process.
//
// Unless a method says otherwise, methods of a Loop and of its Layer are called on the loop: by its
// threads, by functions given to Post, or before Run. Methods of a Thread and of its Layer are
// called by that thread, on its own coroutine. Post and Stop are for any goroutine.
//
// # Threads and waits
//
//	l.Go(f)                    starts a green thread that runs f, detached from the caller
//	t.Go(f)                    the same within the caller's scope: it ends before the caller does
//	Go(t, f)                   the same with a result, which it promises
//	Await(t, d, f)             runs f, which may block, off the loop, and waits for its result
//	t.Await(d, f)              the same for an f without a result
//	Call(t, f)                 Await that does not wait: it promises the result
//	t.AwaitAny(d, sources...)  waits until one of the sources is ready
//	t.AwaitAll(d, sources...)  waits until all of them are, or have been
//	t.AwaitRead(d, fd)         waits for a descriptor; also AwaitWrite, AwaitReadWrite
//	p.Await(t, d)              waits for the result of a promise
//
// A Request has the methods of its thread t, and packages conn and lwango have the functions Await
// and Call for a request.
//
// # Limits of time
//
// All packages of this module mean the same by a limit of time, and by most others:
//
//   - As an argument, such as the d of AwaitAny or of stream.Dial, a negative limit is none, and 0
//     does not wait: what is there counts.
//   - As a field, such as those of conn.Limits or lwango.Server.Grace, a negative limit is none,
//     and 0 stands for the default, which the field's documentation gives.
//
// Sleep, After and the like take a time that is to pass. There a negative one counts as 0, as with
// package time.
//
// # For handlers and programs
//
//	Thread                            a request's, or one that the program has started: its waits
//	Await, Call                       functions that block, off the loop
//	Go, Promise, Collect, First       threads with results
//	Source, Notify                    what AwaitAny waits for: these, Promises, and what others make
//	Timer, Chan, FromChan
//	Readiness, Readable, Writable     a descriptor that is ready
//	ReadableFile
//	Mutex, RWMutex                    locks that may be held while a thread waits
//	Now, At                           a clock that is cheap to look at
//	ErrClientGone, ErrCanceled        why a wait returns early
//	ErrDeadlineExceeded, ErrNoWorker
//	ErrBudget
//	ErrAwaited, ErrPending            mistakes
//	PanicError, ErrExited             how a function has ended
//	New, Options, Loop, Reserve       loops of the program's own
//	DefaultWorkers, StuckError
//	Listen, ListenUnix, LocalAddr     sockets for them
//	Stats, ThreadState                what a loop counts
//	Watchdog, NewWatchdog, Stall      who blocks it
//
// # For layers and protocols
//
//	Task                              what a thread runs
//	ThreadLayer, LoopLayer            what is done to a thread, and with a loop, besides
//	Broadcast                         one event for many threads
//	Binding, Budget, Idle             values of the layer's methods
//	InPlace                           functions that the loop waits for
//	CallUnless                        Call whose function is to be left alone if it is late
//	Descriptor, Shared                sockets: reads, writes, waits
//	Buffer, BufferSize, PutOffSize
//	Acceptor, Listener                the accepting of connections
//	ErrNoConnection
//
// # States of a thread
//
// A thread is in one of six states. The loop moves it from one to the next; a thread moves itself
// only by what it yields, or by what its Task returns, while it is running.
//
//	state              coroutine  moves to    when, and by what
//	idle               none       queued      its descriptor has an event (dispatch), or one with
//	                                          WakeOnReady; Wake; what WakeOnNotify lets wake it
//	                              ended       IdleTimeout has passed, or EndIdle
//	queued             as before  running     its turn has come (runQueued, nextTask)
//	running            its own    queued      it yields Yield, or wants what it need not wait for;
//	                                          or its Task returns Yield
//	                              waits ...   it yields one of the other codes
//	                              idle        its Task returns WantRead or the like, or Suspend
//	                              ended       its Task returns Abort, panics or calls Goexit; or
//	                                          too many of its waits were refused
//	waits for its own  its own    queued      its descriptor has an event, or time is up (alarm)
//	waits for sources  its own    queued      an event of a claimed descriptor, Notify, time is
//	                                          up, its client leaves, its scope is canceled
//	ended              none       nothing     its descriptor is closed, its record is free
//
// A new thread is idle after Attach, and queued after AttachReady and Go. To wait for its own is
// WantRead, WantWrite and WantReadWrite; every other wait is for sources: Sleep, AwaitRead,
// AwaitAny, Await, Join. A thread whose own socket is among its sources waits for both. If the Task
// of an idle thread has returned Suspend, input does not move the thread, and IdleTimeout moves it
// to queued. From each state but running, kill moves a thread to ended: when the grace period of a
// stop is over, when epoll_wait fails, and when the thread that has started it is killed.
//
// The package says "end" of threads only, for the move to the last state, apart from the end of
// input. A wait returns, and so does a Task; a scope closes; a claim and a raw descriptor are
// released; a coroutine dies; a loop stops.
//
// # Files
//
//	loop.go        the Loop, its turn, Run
//	flags.go       a descriptor's state and the tables that map a yielded code to the next one
//	edge.go        the edge-triggered states of a direction, all moves in a table
//	interest.go    the records of descriptors, epoll_ctl, the effect of an event
//	thread.go      Thread: its start, its end
//	errors.go      why a wait has returned early
//	layer.go       Layer: what layers and protocols do to a Thread
//	embedded.go    threads without a descriptor that are part of a larger record
//	want.go        a Thread's waits for its own descriptor, and for a time
//	within.go      a budget of time for all waits of a part of a thread's work
//	shared.go      sockets that any thread of the loop may wait for
//	idlefd.go      an idle socket: a shared one between two uses
//	socket.go      reads and writes of sockets, which tell the loop what is left to wait for
//	putoff.go      small sends that go out together at the end of a turn, or when there is room
//	rawfd.go       raw descriptors: waiting for a descriptor by its bare number
//	rawfd_io.go    system calls on a raw descriptor that try, wait and try again
//	source.go      waiting for any or all of several things; Source, open to other packages
//	readiness.go   a descriptor as a source
//	timer.go       a point in time as a source
//	chan.go        a Go channel as a source
//	promise.go     Promise: a result that is still to come
//	collect.go     several promises: all of them, or the first good one
//	waiters.go     the threads that wait for a promise
//	mutex.go       locks that threads may hold while they wait
//	buffer.go      memory for bytes that move
//	call.go        functions that may block, off the loop
//	scope.go       threads that others have started, and that end before them
//	context.go     contexts that end the waits of threads
//	post.go        functions from other goroutines
//	accept.go      the thread that accepts connections
//	listen.go      listening sockets
//	idle.go        idle threads, which may have to give way
//	idlewake.go    idle threads that are notified; why a thread runs
//	threadstate.go ThreadState, EachThread: what the threads of a running loop do
//	stop.go        the orderly stop, and a loop that does not end
//	wait.go        when the loop polls, and when it blocks
//	inplace.go     functions that may block, for which the loop waits a moment
//	beside.go      goroutines beside the loop: when it calls the scheduler for their sake
//	runqueue.go    threads that are ready
//	broadcast.go   events that many threads wait for, and wake up for a few at a time
//	share.go       how long a turn may take; threads that move much data give way to others
//	cpus.go        GOMAXPROCS: one processor more than loops
//	watchdog.go    the log of code that holds a loop for too long
//	stack.go       the stack of the code that holds a loop
//	stack_hint.go  what such code should use in place of a lock that blocks the loop
package loop

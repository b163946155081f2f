package loop

import (
	"github.com/lwango/lwango/coro"
	"golang.org/x/sys/unix"
)

// flags is the state of a descriptor, and of its thread if it is a thread's own.
//
//	31          16 15                       0
//	| await mask  | suspended queued fin ... |
//
// The upper half is the epoll mask, of IN and OUT, that threads wait for. Both bits are below
// 1<<16. The lower half is state. A yielded code turns the whole word into the next one with two
// operations, (f | orMask[code]) & andMask[code]. The mask needs no look-up: it is a shift away.
type flags uint32

const (
	suspended    flags = 1 << iota // the thread does not wait for its own descriptor
	queued                         // the thread is in the run queue
	finished                       // RDHUP was seen: the peer sends no more
	keepWaiting                    // a suspended thread goes on waiting when its client leaves
	shared                         // the descriptor is no thread's own, and inside a Shared
	rawFD                          // threads await it by its bare number
	notifiable                     // the thread waits for Notify, in AwaitAny or idle (WakeOnNotify)
	canceled                       // the thread's scope was canceled: its waits return at once
	ended                          // the thread has ended, and its record is free
	listed                         // the thread is in the list of idle ones
	unflushed                      // the task has output to flush before the thread waits
	idleFD                         // no thread uses it, and its number belongs to code off the loop
	hasPiece                       // something that is to be sent to it was put off
	hasRemainder                   // the kernel had no room for all of that, see putOffs
	sole                           // nothing has duplicated it, so close(2) takes it out of epoll
	daemon                         // Loop.Threads does not count the thread
)

const maskShift = 16

const (
	in    = unix.EPOLLIN
	out   = unix.EPOLLOUT
	rdhup = unix.EPOLLRDHUP
)

func mask(events uint16) flags { return flags(events) << maskShift }

// awaited returns the events that threads wait for.
func (f flags) awaited() uint16 { return uint16(f >> maskShift) }

// orMask and andMask turn the flags of a record into those that follow a yielded code. Abort has no
// row: it ends the record.
var (
	orMask = [coro.NumCodes]flags{
		coro.WantRead:            mask(in),
		coro.WantWrite:           mask(out),
		coro.WantReadWrite:       mask(in | out),
		coro.Suspend:             suspended,
		coro.AsyncAwaitRead:      suspended,
		coro.AsyncAwaitWrite:     suspended,
		coro.AsyncAwaitReadWrite: suspended,
	}
	andMask = [coro.NumCodes]flags{
		coro.Yield:               ^suspended,
		coro.WantRead:            ^(mask(out) | suspended),
		coro.WantWrite:           ^(mask(in) | suspended),
		coro.WantReadWrite:       ^suspended,
		coro.Suspend:             ^mask(in | out),
		coro.Resume:              ^(suspended | notifiable),
		coro.AsyncAwaitRead:      ^mask(in | out),
		coro.AsyncAwaitWrite:     ^mask(in | out),
		coro.AsyncAwaitReadWrite: ^mask(in | out),
	}
)

func (f flags) next(c coro.Code) flags { return (f | orMask[c]) & andMask[c] }

// awaitCode and wantCode are the codes that wait for an interest, of another descriptor and of the
// thread's own.
var (
	awaitCode = byInterest{
		in: coro.AsyncAwaitRead, out: coro.AsyncAwaitWrite, in | out: coro.AsyncAwaitReadWrite,
	}
	wantCode = byInterest{
		0: coro.Suspend, in: coro.WantRead, out: coro.WantWrite, in | out: coro.WantReadWrite,
	}
)

// byInterest is indexed by an interest: IN is 1 and OUT is 4.
type byInterest [1 + (in | out)]coro.Code

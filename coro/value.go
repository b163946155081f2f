package coro

import "strconv"

// Value is what a green thread yields to its loop. The low 32 bits are the Code. The high 32 bits
// are the awaited descriptor, or 0 if the code awaits none.
type Value int64

// Code says what a green thread wants of its loop. The order is part of the design: the codes for a
// descriptor other than the thread's own come last, so that one compare (code >= AsyncAwaitRead)
// keeps them off the common path.
type Code uint32

const (
	Abort               Code = iota // run the deferred calls, close the descriptor, free the record
	Yield                           // go on in the loop's next turn
	WantRead                        // wait until the thread's own descriptor can be read
	WantWrite                       // wait until it can be written
	WantReadWrite                   // wait for either
	Suspend                         // wait until the loop resumes the thread
	Resume                          // never yielded: the loop's own step out of Suspend
	AsyncAwaitRead                  // wait until the descriptor in the high half can be read
	AsyncAwaitWrite                 // wait until it can be written
	AsyncAwaitReadWrite             // wait for either

	// NumCodes is the length of tables indexed by Code.
	NumCodes = iota
)

// Make joins a code and a descriptor; fd is 0 for the codes before AsyncAwaitRead.
func Make(code Code, fd int) Value { return Value(int64(fd)<<32 | int64(code)) }

// Code returns the low half.
func (v Value) Code() Code { return Code(uint32(v)) }

// FD returns the awaited descriptor, the high half.
func (v Value) FD() int { return int(v >> 32) }

var codeNames = [NumCodes]string{
	"Abort", "Yield", "WantRead", "WantWrite", "WantReadWrite", "Suspend", "Resume",
	"AsyncAwaitRead", "AsyncAwaitWrite", "AsyncAwaitReadWrite",
}

func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "Code(" + strconv.Itoa(int(c)) + ")"
}

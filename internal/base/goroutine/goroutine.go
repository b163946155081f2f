// Package goroutine tells goroutines apart, for checks of who calls.
package goroutine

import (
	"runtime"
	"sync"
)

// ID returns the number by which stack traces speak of the calling goroutine; there is no other way
// to tell goroutines apart. It takes some microseconds. No other goroutine of the process has that
// number, before or later.
func ID() (id uint64) {
	buf := buffers.Get().(*[32]byte)
	defer buffers.Put(buf)
	// "goroutine 18 [running]:..."
	for _, c := range buf[len("goroutine "):runtime.Stack(buf[:], false)] {
		if c < '0' || c > '9' {
			break
		}
		id = 10*id + uint64(c-'0')
	}
	return id
}

// buffers are there for the tests of allocations.
var buffers = sync.Pool{New: func() any { return new([32]byte) }}

package server

import (
	"errors"
	"runtime"
	"strings"
)

var errOnLoop = errors.New("Reload was called on a loop, by a handler, and waits for all loops: " +
	"call it off the loop, as by req.Await")

// onLoop reports whether the calling goroutine is that of a loop, or of a thread on one. It looks
// at the function with which the goroutine began, at the end of its stack.
func onLoop() bool {
	const module = "github.com/lwango/lwango/"
	pcs := make([]uintptr, 64)
	n := runtime.Callers(1, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*n)
		n = runtime.Callers(1, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == module+"loop.(*helper).Run": // see loop.ThreadLayer.RunInPlace
			return false
		case strings.HasPrefix(f.Function, module+"coro.(*Coro)."),
			strings.HasPrefix(f.Function, module+"loop.(*Loop).lead"):
			return true
		}
		if !more {
			return false
		}
	}
}

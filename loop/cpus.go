package loop

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Reserve makes room for n loops beside those that there are, and for one more processor
// (GOMAXPROCS), and returns n. n = 0 stands for a loop for each CPU: what GOMAXPROCS was before the
// first call. It never lowers GOMAXPROCS. A program calls it once it knows how many loops it is
// going to make, before it makes them, from any goroutine. If several parts of a program do that,
// each for loops of its own, one part makes its loops before the next one calls Reserve.
//
// The processor more is for goroutines beside the loops. Only a processor without work looks at
// Go's network poller. If each processor belongs to a loop, the runtime's monitor looks in their
// place, every 10 ms, and so goroutines beside busy loops wait that long for each network event.
//
// Reserve sets the number even if it is the present one. If GOMAXPROCS was never set, the runtime
// changes it with the CPU quota of the process's cgroup, and would take the spare processor away.
func Reserve(n int) int {
	cpus := initialProcessors()
	if n <= 0 {
		n = cpus
	}
	reserving.Lock()
	defer reserving.Unlock()
	runtime.GOMAXPROCS(max(int(open.Load())+n+1, runtime.GOMAXPROCS(0)))
	return n
}

// reserving guards the reading and setting of GOMAXPROCS.
var reserving sync.Mutex

// open is how many loops there are: those that New has made and Close has not freed.
var open atomic.Int64

// initialProcessors is what GOMAXPROCS was before the first Reserve, so that a second call counts
// the same CPUs.
var initialProcessors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

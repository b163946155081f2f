package loop

import (
	"runtime"
	"sync"
)

// Reserve makes room for n loops beside those that there are, and for one more processor
// (GOMAXPROCS), and returns n. n = 0 stands for a loop for each CPU: what GOMAXPROCS was before the
// first call. A program calls it once it knows how many loops it is going to make, before it makes
// them, from any goroutine. If several parts of a program do that,
// each for loops of its own, one part makes its loops before the next one calls Reserve.
//
// The processor more is for goroutines beside the loops. Only a processor without work looks at
// Go's network poller. If each processor belongs to a loop, the runtime's monitor looks in their
// place, every 10 ms, and so goroutines beside busy loops wait that long for each network event.
//
// It never lowers GOMAXPROCS. The end of loops does, down to what it was before the first call,
// unless the program has set another number since.
//
// Reserve sets the number even if it is the present one. If GOMAXPROCS was never set, the runtime
// changes it with the CPU quota of the process's cgroup, and would take the spare processor away.
func Reserve(n int) int {
	cpus := initialProcessors()
	if n <= 0 {
		n = cpus
	}
	processors.Lock()
	defer processors.Unlock()
	processors.reserved = n
	processors.set(max(processors.open+n+1, runtime.GOMAXPROCS(0)))
	return n
}

// processors guards GOMAXPROCS, and what it depends on.
var processors processorCount

type processorCount struct {
	sync.Mutex
	open     int // loops that New has made and Close has not freed
	reserved int // loops that are still to be made, after the last Reserve
	last     int // what GOMAXPROCS was set to
}

func (p *processorCount) set(n int) {
	p.last = n
	runtime.GOMAXPROCS(n)
}

// loopOpened counts a loop that was made.
func (p *processorCount) loopOpened() {
	p.Lock()
	defer p.Unlock()
	p.open++
	p.reserved = max(p.reserved-1, 0)
}

// loopClosed counts a loop that was freed, and lowers GOMAXPROCS.
func (p *processorCount) loopClosed() {
	p.Lock()
	defer p.Unlock()
	p.open--
	loops := p.open + p.reserved
	n := initialProcessors()
	if loops > 0 {
		n = max(n, loops+1)
	}
	if now := runtime.GOMAXPROCS(0); n < now && now == p.last {
		p.set(n)
	}
}

// initialProcessors is what GOMAXPROCS was before the first Reserve, so that a second call counts
// the same CPUs.
var initialProcessors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

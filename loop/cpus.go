package loop

import (
	"runtime"
	"sync"
	"time"
)

// Reserve makes room for n loops and one more processor (GOMAXPROCS), and returns n. n = 0 stands
// for a loop for each CPU: what GOMAXPROCS was before the first call. It never lowers GOMAXPROCS. A
// program calls it once it knows how many loops it is going to run, from any goroutine.
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
	runtime.GOMAXPROCS(max(n+1, runtime.GOMAXPROCS(0)))
	return n
}

// reserving guards the reading and setting of GOMAXPROCS.
var reserving sync.Mutex

// initialProcessors is what GOMAXPROCS was before the first Reserve, so that a second call counts
// the same CPUs.
var initialProcessors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

const (
	noBlockLimit = time.Millisecond     // for a loop that finds events each time it looks
	tickLimit    = 5 * time.Millisecond // for one that blocks in between
)

// giveWay lets other goroutines have the loop's processor, from time to time.
//
//   - A loop that does not block holds its processor. Goroutines that are queued there, and that no
//     idle processor steals, would wait for forced preemption, which comes after 10 ms.
//   - A loop that does block is announced to the scheduler each time. That is cheap as long as the
//     scheduler leaves the processor with the waiting loop. But the `direct` handoff switches
//     goroutines without the scheduler. So to the runtime's monitor one goroutine has been running
//     all the time, and after 10 ms the monitor takes the processor away at each wait.
func (l *Loop) giveWay(blocked bool) {
	limit := noBlockLimit
	if blocked {
		limit = tickLimit
	}
	if l.now-l.gaveWay >= limit.Milliseconds() {
		runtime.Gosched()
		l.gaveWay = l.now
	}
}

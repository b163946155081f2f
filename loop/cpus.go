package loop

import (
	"runtime"
	"sync"
	"time"
)

// Reserve gives the process the processors (GOMAXPROCS) for n loops and one more, and returns n. n = 0 stands for a loop
// for each CPU: as many as GOMAXPROCS said before the first call. It never takes processors away. A program calls it once
// it knows how many loops it is going to run, from any goroutine.
//
// The one more is for whatever runs beside the loops. A processor that has nothing to do is the only one that looks at Go's
// network poller. Where each processor belongs to a loop, the runtime's monitor looks in its place, every 10 ms, and that
// is how long goroutines beside busy loops then wait for each network event.
//
// The number is set even if it is the present one. The runtime changes a number that was never set when the CPU quota of
// the process's cgroup changes, and would take the spare processor away.
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

// reserving guards the reading and the setting of GOMAXPROCS.
var reserving sync.Mutex

// initialProcessors is GOMAXPROCS before Reserve has changed it, so that a second call counts the same CPUs.
var initialProcessors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

const (
	noBlockLimit = time.Millisecond     // for a loop that finds events each time it looks
	tickLimit    = 5 * time.Millisecond // for one that blocks in between
)

// giveWay lets other goroutines have the loop's processor, from time to time.
//
//   - A loop that does not block holds its processor. Goroutines that are queued there, and not stolen by an idle processor,
//     would wait for forced preemption, which comes after 10 ms.
//   - A loop that does block is announced to the scheduler each time, which is cheap as long as the scheduler leaves the
//     processor with the waiting loop. But the `direct` handoff switches goroutines behind the scheduler's back. For the
//     runtime's monitor one goroutine has been running for all that time, and after 10 ms of this the monitor takes the
//     processor away at each wait.
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

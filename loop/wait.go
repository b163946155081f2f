package loop

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
)

// wait takes events from the kernel and acts on them.
//
// It polls, that is, asks without blocking, if the loop must not block, or if several events were
// there the last time without a sleep: then it is under load, the next events are probably there
// already, and a call that cannot sleep goes to the kernel raw, at half the cost of one that may.
// While events come singly, or the loop sleeps for those that come together, a poll would find
// none, and be a second system call for each turn.
func (l *Loop) wait() error {
	l.pulse.beat()
	if l.started { // see StartGoroutine
		l.started = false
		runtime.Gosched()
	}
	var n int
	var errno syscall.Errno
	if l.busyPoll {
		n, errno = l.epollWait(0)
	} else {
		l.tick() // for timeout: the turn may have taken its time
	}
	if n == 0 && errno == 0 {
		if d := l.timeout(); d != 0 || !l.busyPoll {
			n, errno = l.epollWait(d)
		}
	}
	if errno != 0 {
		return os.NewSyscallError("epoll_wait", errno)
	}
	l.busyPoll = n > 1 && !l.slept
	l.giveWay()
	l.stats.Events += int64(n)
	for i := range l.events[:n] {
		e := &l.events[i]
		if int(e.Fd) == l.wakefd {
			continue // its watch is edge-triggered, so nothing has to be read
		}
		l.dispatch(e)
	}
	return nil
}

// How long a call that may sleep takes at most if it has found n events at once: atOnce and n times
// perEvent. To sleep and to be woken takes longer.
const (
	atOnce   = 5 * time.Microsecond
	perEvent = 100 * time.Nanosecond
)

// epollWait asks the kernel for events. It waits for one, for d at most, or without limit if d is
// negative, unless something was posted.
//
// While the run queue holds more than a turn's share, it takes one event only. The rest keep their
// order in the kernel as well as in the queue, and a thread that a timer or a notification makes
// ready does not have to wait behind all of them.
func (l *Loop) epollWait(d time.Duration) (n int, errno syscall.Errno) {
	events := l.events[:]
	if l.crowded {
		events = events[:1]
	}
	if d != 0 && l.post.sleep() {
		before, held := l.wall, l.held // the loop has read the clock just now
		l.pulse.sleep()
		n, errno = sysio.EpollWait(l.epfd, events, d)
		l.pulse.wake()
		l.post.asleep.Store(false)
		l.tick()
		l.held = held
		took := l.wall.Sub(before)
		l.slept = took > atOnce+time.Duration(n)*perEvent
		l.stats.Wakeups++
		l.stats.Asleep += took
	} else {
		n, errno = sysio.EpollWait(l.epfd, events, 0)
		l.slept = false
		l.tick()
	}
	l.stats.Waits++
	if n < len(events) {
		l.fullPolls++
	}
	return n, errno
}

// tickLimit is how long a loop goes on without a call of the scheduler.
const tickLimit = 5 * time.Millisecond

// giveWay calls the scheduler now and then, whether the loop blocks or not.
//
//   - A loop that does not block holds its processor. Goroutines that are queued there, and that no
//     idle processor steals, would wait for forced preemption, which comes after 10 ms.
//   - A loop that does block tells the scheduler so each time. That is cheap as long as the
//     scheduler leaves the processor with the waiting loop. But the handoff `direct` switches
//     goroutines without the scheduler. So to the runtime's monitor one goroutine has been running
//     all the time, and after 10 ms the monitor takes the processor away at each wait, and looks
//     for such waits every 20 µs.
func (l *Loop) giveWay() {
	if l.now-l.gaveWay >= tickLimit.Milliseconds() {
		runtime.Gosched()
		l.gaveWay = l.now
	}
}

package loop

import (
	"os"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/base/sysio"
)

// wait takes events from the kernel and acts on them.
//
// It polls, which does not block, if the loop must not block, or if the last call found several
// events without a sleep: then the loop is under load, the next events have probably come already,
// and a call that cannot sleep is a raw system call, at half the cost of one that may. While events
// come singly, or the loop sleeps until several come, a poll would find none, and be a second
// system call for each turn.
func (l *Loop) wait() error {
	l.pulse.beat()
	l.runStarted()
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
	l.goschedNowAndThen()
	l.stats.Events += int64(n)
	l.putOffs.short = n < fewEvents
	for i := range l.events[:n] {
		e := &l.events[i]
		if int(e.Fd) == l.wakefd {
			continue // its watch is edge-triggered, so nothing has to be read
		}
		l.dispatch(e)
	}
	return nil
}

// A call that may sleep and finds n events at once takes at most atOnce and n times perEvent. To
// sleep and be woken takes longer.
const (
	atOnce   = 5 * time.Microsecond
	perEvent = 100 * time.Nanosecond
)

// epollWait calls epoll_wait. It waits for an event, for d at most, or without limit if d is
// negative, unless something was posted.
//
// While the loop is overloaded, it takes one event only. The kernel keeps the others in their
// order, and a thread that a timer or a notification makes ready is not queued after all of them.
func (l *Loop) epollWait(d time.Duration) (n int, errno syscall.Errno) {
	events := l.events[:]
	if l.overloaded {
		events = events[:1]
	}
	if d != 0 && l.post.sleep() {
		before, held := l.wall, l.stalled // the loop has read the clock just now
		l.pulse.sleep()
		n, errno = sysio.EpollWait(l.epfd, events, d)
		l.pulse.wake()
		l.post.asleep.Store(false)
		l.tick()
		l.stalled = held
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

package loop

import (
	"log/slog"
	"math"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/timeoutwheel"
	"golang.org/x/sys/unix"
)

const (
	eventsPerTurn = 128              // of one epoll_wait; the rest keep their order for the next
	unusedAfter   = 10 * time.Second // parked coroutines are closed,
	trimsPerTurn  = 256              // so many in a turn: each takes a microsecond
)

// Options of a new loop. The zero value stands for the defaults.
type Options struct {
	Handoff coro.Handoff // see coro.Direct for what threads must not do
	Logger  *slog.Logger // for panics and the like; nil: slog.Default
	Workers int          // how many functions run off the loop at a time; 0: DefaultWorkers
}

// Stats counts what a loop has done since it was made.
type Stats struct {
	Waits   int64 // returns of epoll_wait
	Ctls    int64 // calls of epoll_ctl
	Events  int64 // events delivered
	Resumes int64 // times that a thread has become the running one
	Wakeups int64 // times that the loop has slept for an event
	Lost    int64 // bytes that were put off, and not sent before their socket's end: see PutOff

	Yields [coro.NumCodes]int64 // by code: what threads have yielded, or their tasks returned

	Age, Asleep time.Duration // since the loop was made, and how much of that it has slept

	// Now.
	Threads int // that have not ended
	Working int // coroutines that have a task: threads that run, are queued or wait
	Parked  int // coroutines that are kept for the next thread
	Timers  int // pending
	Owing   int // sockets that have no room for what was put off

	// Functions off the loop, including those that no thread waits for any more.
	Calls    int   // running now
	Queued   int   // waiting for a worker
	NoWorker int64 // waits that have returned ErrNoWorker
}

// Loop runs green threads. The package comment says who may call its methods.
type Loop struct {
	// Set once.
	log    *slog.Logger
	epfd   int
	wakefd int
	ended  chan struct{} // closed when Run returns
	made   time.Time
	start  time.Time     // as made, but for Skip
	origin time.Duration // start by the package's Now

	panics atomic.Int64 // see Panicked

	// Owned by the loop.
	table      []*Descriptor // by number
	gen        uint32
	detached   []*Thread     // threads without a descriptor
	threads    int           // all that have not ended
	standing   int           // of these, those of StandBy
	wall       time.Time     // of this turn
	elapsed    time.Duration // from start to wall
	now        int64         // of this turn, milliseconds since start
	busyPoll   bool          // the next epoll_wait asks without blocking first
	slept      bool          // the last epoll_wait has slept
	fullPolls  int64         // see Polls
	held       time.Duration // in sum, between readings of the clock that were more than heldUp apart
	gaveWay    int64         // when other goroutines were last given the processor
	share      share         // of the present turn, for its queue or its timers
	wheel      *timeoutwheel.Wheel
	runq       queue // for a later turn
	turn       queue // the rest of the present turn's, or of the one before
	behind     queue // those that gave way to all of these
	broadcasts broadcasts
	putOffs    putOffs
	crowded    bool // in this turn more threads are ready than it has time for
	pool       coro.Pool
	trim       trimmer
	current    *Thread // the running one; nil: the loop itself runs
	idle       idleList
	spare      int    // a descriptor to accept with when there is no other; -1: none
	buffer     Buffer // nil: a thread has it
	stop       stopper
	workers    workers
	stats      Stats
	owner      invariants.Owner // the goroutine in Run
	started    bool             // a goroutine, in this turn
	events     [eventsPerTurn]unix.EpollEvent

	// Safe from any goroutine.
	post  poster
	pulse pulse
}

// New makes a loop. The loop holds two descriptors, and a third once it accepts connections, until
// Run returns, or until Close is called if it never runs.
func New(o Options) (*Loop, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wakefd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(epfd)
		return nil, os.NewSyscallError("eventfd", err)
	}
	if e := sysio.EpollCtl(epfd, unix.EPOLL_CTL_ADD, wakefd, in|unix.EPOLLET, 0); e != 0 {
		unix.Close(epfd)
		unix.Close(wakefd)
		return nil, os.NewSyscallError("epoll_ctl", e)
	}
	l := &Loop{
		log:    o.Logger,
		epfd:   epfd,
		wakefd: wakefd,
		ended:  make(chan struct{}),
		start:  time.Now(),
		wheel:  timeoutwheel.New(0),
		idle:   idleList{first: -1, last: -1},
		spare:  -1,
	}
	l.pool = coro.Pool{Handoff: o.Handoff, Next: l.follow}
	if l.log == nil {
		l.log = slog.Default()
	}
	if l.workers.limit = o.Workers; o.Workers <= 0 {
		l.workers.limit = DefaultWorkers
	}
	l.wall, l.made = l.start, l.start
	l.origin = l.start.Sub(epoch)
	l.trim.init(l)
	l.stop.init(l)
	l.post.wakefd = wakefd
	l.pulse.name = strconv.Itoa(epfd)
	processors.loopOpened()
	return l, nil
}

// Run turns the loop on the calling goroutine, until no thread is left or Stop has ended them all.
// A loop runs once. The goroutine must not be locked to its OS thread: a channel handoff would cost
// a hundred times as much. It has a profiler label of the loop meanwhile, and none afterwards.
func (l *Loop) Run() error {
	defer close(l.ended)
	defer l.pulse.run()()
	defer l.Close()
	l.owner.Enter()
	defer l.owner.Leave()
	l.tick() // what comes first counts from now, and not from New
	for l.threads > 0 || !l.post.closeIfEmpty() {
		l.runPosted()
		l.runQueued()
		l.sendPutOffs()
		if err := l.wait(); err != nil {
			l.killAll()
			return err
		}
		l.share.begin()
		l.wheel.Advance(l.now)
	}
	return nil
}

// Close frees a loop that is not running, with its threads, and closes the descriptors that Open
// has made and that are still open.
func (l *Loop) Close() {
	if l.epfd < 0 {
		return
	}
	l.post.close()
	l.killAll()
	for _, d := range l.table { // a thread that was to close d may have been killed before it began
		if d != nil && d.flags&(rawFD|kept) == 0 {
			l.CloseDescriptor(d)
		}
	}
	l.pool.Close()
	if l.spare >= 0 {
		unix.Close(l.spare)
	}
	unix.Close(l.wakefd)
	unix.Close(l.epfd)
	l.epfd, l.wakefd = -1, -1
	processors.loopClosed()
}

// timeout returns how long the loop may block; there is no limit if it is negative.
func (l *Loop) timeout() time.Duration {
	if l.threads == 0 || !l.runq.empty() || !l.turn.empty() || !l.behind.empty() ||
		l.broadcasts.first != nil {
		return 0
	}
	at, ok := l.wheel.Next()
	if !ok {
		return -1
	}
	// To the nanosecond: the wheel makes a timer late by up to a millisecond already.
	return max(time.Duration(min(at, maxWait))*time.Millisecond-l.elapsed, 0)
}

// maxWait is the longest Duration, in milliseconds.
const maxWait = math.MaxInt64 / int64(time.Millisecond)

// heldUp is for how long a thread may hold its loop before the waits of others take note.
const heldUp = 100 * time.Millisecond

func (l *Loop) tick() {
	before := l.wall
	l.wall = time.Now()
	if d := l.wall.Sub(before); d > heldUp {
		l.held += d
	}
	l.elapsed = l.wall.Sub(l.start)
	l.now = l.elapsed.Milliseconds()
}

// after returns the wheel's time at which d will have passed since the loop last read the
// clock, and never if d is negative. It rounds up, so that no timer is early.
func (l *Loop) after(d time.Duration) int64 {
	if d <= 0 {
		if d < 0 {
			return never
		}
		return l.now
	}
	d = min(d, math.MaxInt64-l.elapsed-time.Millisecond)
	return int64((l.elapsed + d + time.Millisecond - 1) / time.Millisecond)
}

// Logger returns the logger of the loop, for code that serves on it.
func (l *Loop) Logger() *slog.Logger { return l.log }

// Time returns when this turn of the loop began to act on its events.
func (l *Loop) Time() time.Time { return l.wall }

// Now is Time by the clock of the function Now.
func (l *Loop) Now() time.Duration { return l.elapsed + l.origin }

// Now returns the time by the monotonic clock, counted from when the process began. It reads one
// clock, where time.Now reads two, and is never 0. Skip has no part in it. Any goroutine
// may call it.
func Now() time.Duration { return time.Since(epoch) }

// At returns the time that Now has returned.
func At(now time.Duration) time.Time { return epoch.Add(now) }

var epoch = time.Now().Add(-time.Nanosecond)

// Clock returns where t is on the loop's own clock, which counts from when the loop was made, and
// which Skip puts forward. What is to come at a point of that clock comes earlier after a Skip.
func (l *Loop) Clock(t time.Time) time.Duration {
	if t == l.wall { // mostly
		return l.elapsed
	}
	return t.Sub(l.start)
}

// Skip puts the loop's own clock forward by d, as if d had passed without any event: what waits for
// its time on the loop then waits so much less. It is for tests of long waits. Time and time.Now
// stay as they are. The caller is on the loop; a negative d counts as 0.
func (l *Loop) Skip(d time.Duration) {
	d = max(d, 0)
	l.start = l.start.Add(-d)
	l.elapsed, l.origin = l.elapsed+d, l.origin-d
}

// Stats returns what the loop has counted.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Calls, s.Queued, s.NoWorker = l.workers.running, l.workers.queue.Len(), l.workers.missed
	s.Threads, s.Timers, s.Age = l.threads, l.wheel.Pending(), time.Since(l.made)
	s.Owing = len(l.putOffs.remainders)
	s.Working, s.Parked = l.pool.Used(), l.pool.Len()
	return s
}

// Panicked returns how many threads have ended with a panic that the loop has logged. Any goroutine
// may call it.
func (l *Loop) Panicked() int64 { return l.panics.Load() }

// Current returns the running thread, or nil if the loop itself runs. It is for code on a thread
// that cannot be told which thread it is on, such as the methods of a net.Conn.
func (l *Loop) Current() *Thread { return l.current }

// Check panics, under the invariants build tag, unless the caller is the running thread, or the
// loop itself while no thread is running. It is for methods of what belongs to a loop and cannot be
// told its thread, such as those of a net.Conn: another goroutine would use it at the same time as
// the loop.
func (l *Loop) Check() {
	if invariants.Enabled {
		owner := &l.owner
		if l.current != nil {
			owner = &l.current.owner
		}
		if !owner.Here() {
			panic(
				"loop: use of what belongs to a loop by a goroutine that is not one of its threads")
		}
	}
}

// Threads returns how many threads have not ended, without those of StandBy.
func (l *Loop) Threads() int { return l.threads - l.standing }

// StandBy says that t has no work of its own: it waits for other threads, as a connection to an
// upstream does that requests share, or for the end of the loop. The loop does not end before it,
// but Threads leaves it out, so that nothing is kept for its sake. It is called on the loop.
func StandBy(t *Thread) {
	if t.own.flags&(standsBy|ended) == 0 {
		t.own.flags |= standsBy
		t.loop.standing++
	}
}

// resume makes t run: it goes on where it yielded, or its task begins on a free coroutine. Then
// resume acts on the value that t yields.
func (l *Loop) resume(t *Thread) {
	c := t.co
	var v coro.Value
	if c == nil {
		c = l.pool.Get()
		l.enter(t, c)
		v = c.Start((*entry)(t))
	} else {
		l.enter(t, c)
		v = c.Resume()
	}
	t = l.current // another if t's task has returned and others followed; nil if all have returned
	l.current = nil

	code := v.Code()
	if !c.Parked() && !c.Dead() { // taskReturned has counted it
		l.stats.Yields[code]++
		c.Yielded, c.Since = v, l.now
	}
	switch {
	case c.Parked(): // taskReturned has acted on it
		l.park(c)
	case c.Dead(): // the task has called Goexit
		l.logPanic(t)
		if t.extra().err == nil {
			t.more.err = ErrExited
		}
		l.pool.Put(c, l.now)
		t.co = nil
		l.end(t)
	case code == coro.Abort:
		l.kill(t)
	case code == coro.Yield:
		l.notFirst(t)
		t.own.flags = t.own.flags.next(code)
		if v.FD() == behind {
			l.enqueue(&l.behind, t, ByEvent)
		} else {
			l.ready(t, ByEvent)
		}
	default:
		l.notFirst(t)
		t.own.flags = t.own.flags.next(code)
		d := &t.own
		if code >= coro.AsyncAwaitRead {
			d = l.table[v.FD()] // which the thread has claimed
		}
		if l.arm(d) {
			l.ready(t, ByEvent)
		}
	}
}

// enter makes t the running thread, on c.
func (l *Loop) enter(t *Thread, c *coro.Coro) {
	l.pulse.beat()
	t.until = never
	t.co = c
	l.current = t
	l.stats.Resumes++
}

// taskReturned acts on the code that the task on c has returned.
func (l *Loop) taskReturned(c *coro.Coro, v coro.Value) {
	t := l.current
	l.current = nil
	l.logPanic(t)
	t.co = nil
	l.stats.Yields[v.Code()]++
	if v.Code() == coro.Abort {
		l.end(t)
		return
	}
	if invariants.Enabled &&
		(v.Code() != coro.Yield && v.Code() < coro.WantRead || v.Code() > coro.Suspend ||
			t.own.fd < 0 && v.Code() != coro.Yield && v.Code() != coro.Suspend) {
		panic("loop: a task returns Abort, Yield or Suspend, or on a socket a code from WantRead on")
	}
	if t.more != nil && t.more.end == nil {
		t.more = nil // an idle thread takes as little memory as possible
	}
	t.own.flags = t.own.flags.next(v.Code())
	if v.Code() != coro.Yield && !l.arm(&t.own) {
		return
	}
	q := &l.runq
	if v.Code() == coro.Yield { // behind the threads of this turn: see WakeThisTurn
		q = &l.turn
	}
	l.enqueue(q, t, ByEvent)
}

// logPanic logs the panic of t's task, if there was one, and notes it as t's error.
func (l *Loop) logPanic(t *Thread) {
	if p := t.co.Panic(); p != nil {
		l.panics.Add(1)
		l.log.Error("loop: panic in a green thread", "panic", p.Value, "stack", string(p.Stack))
		t.extra().err = p
	}
}

// follow is called on a coroutine whose task has returned, while the loop waits for it. If the next
// thread in the queue is an idle one, the coroutine takes it on. Under load, most requests are
// answered without waiting, and so they cost no handoff each.
func (l *Loop) follow(c *coro.Coro, v coro.Value) coro.Task {
	if c.Killed() {
		return nil // see RunBeforeEnd
	}
	l.taskReturned(c, v)
	for t := l.turn.head; t != nil && t.co == nil && !l.share.spent(); t = l.turn.head {
		if l.turn.pop(); t.own.flags&ended == 0 {
			l.enter(t, c)
			return (*entry)(t)
		}
	}
	return nil
}

// park gives a coroutine back to the pool.
func (l *Loop) park(c *coro.Coro) {
	l.pool.Put(c, l.now)
	if !l.trim.timer.Pending() {
		l.wheel.Add(&l.trim.timer, l.now+unusedAfter.Milliseconds())
	}
}

// trimmer closes coroutines that a burst has left over.
type trimmer struct {
	loop  *Loop
	timer timeoutwheel.Timer
}

func (tr *trimmer) init(l *Loop) {
	tr.loop = l
	tr.timer.Init(tr)
}

// Expire implements timeoutwheel.Expirer.
func (tr *trimmer) Expire() {
	l := tr.loop
	next := unusedAfter.Milliseconds()
	if l.pool.Trim(l.now-next, trimsPerTurn) {
		next = 1
	}
	if l.pool.Len() > 0 && l.threads > 0 {
		l.wheel.Add(&tr.timer, l.now+next)
	}
}

package loop

import (
	"errors"
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
	unusedAfter   = 10 * time.Second // parked coroutines that were not used for so long are closed
	trimsPerTurn  = 256              // at most in one turn: each takes a microsecond
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
	Threads    int // that have not ended
	Working    int // coroutines that have a task: threads that run, are queued or wait
	Parked     int // coroutines that are kept for the next thread
	Timers     int // pending
	Remainders int // sockets that have no room for what was put off

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
	start  time.Time     // as made, less what AdvanceClock has added
	origin time.Duration // start by the package's Now

	panics atomic.Int64 // see Panicked

	// Owned by the loop.
	table       []*Descriptor // by number
	gen         uint32
	unattached  []*Thread     // threads without a descriptor
	threads     int           // all that have not ended
	daemons     int           // of these, those of MarkDaemon
	wall        time.Time     // of this turn
	elapsed     time.Duration // from start to wall
	now         int64         // of this turn, milliseconds since start
	busyPoll    bool          // the next epoll_wait does not block at first
	slept       bool          // the last epoll_wait has slept
	fullPolls   int64         // see Polls
	stalled     time.Duration // sum of the times between readings of the clock, from minStall on
	share       share         // of the present turn, for its queue or its timers
	wheel       *timeoutwheel.Wheel
	runq        queue // for a later turn
	turn        queue // the rest of the present turn's, or of the one before
	lowPriority queue // of GiveWay: they run after all of these
	broadcasts  broadcasts
	putOffs     putOffs
	overloaded  bool // in this turn more threads are ready than it has time for
	pool        coro.Pool
	trim        trimmer
	current     *Thread // the running one; nil: the loop itself runs
	idle        idleList
	spare       int    // a descriptor to accept with when there is no other; -1: none
	buffer      Buffer // nil: a thread has it
	stop        stopper
	workers     workers
	stats       Stats
	owner       invariants.Owner // the goroutine in Run
	beside      beside
	places      places
	events      [eventsPerTurn]unix.EpollEvent

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
	l.pool = coro.Pool{Handoff: o.Handoff, Next: l.nextTask}
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

// Run turns the loop until no thread is left or Stop has ended them all. A loop runs once. It runs
// on a goroutine of its own, with a profiler label of the loop, or on several, one after the other:
// see RunInPlace.
func (l *Loop) Run() error {
	defer close(l.ended)
	defer l.pulse.sleep()
	defer l.Close()
	l.places.over = make(chan error)
	go l.lead()
	err := <-l.places.over
	l.owner.Enter()
	defer l.owner.Leave()
	if err != nil {
		l.killAll()
	}
	return err
}

// lead is the loop, until it ends or another goroutine has become the loop.
func (l *Loop) lead() {
	err := errors.New("loop: runtime.Goexit on the loop, by a posted function")
	replaced := false
	defer func() {
		if !replaced {
			l.places.over <- err
		}
	}()
	l.pulse.begin()
	l.owner.Enter()
	l.current = nil
	l.tick() // the first waits count from now, and not from New
	l.places.goOn(l)
	for l.threads > 0 || !l.post.closeIfEmpty() {
		l.runPosted()
		if replaced = l.runQueued(); replaced {
			return
		}
		l.sendPutOffs()
		l.runStarted()
		if e := l.wait(); e != nil {
			err = e
			return
		}
		l.places.spent = 0
		l.share.begin()
		l.wheel.Advance(l.now)
	}
	err = nil
}

// Close frees a loop that is not running, with its threads, and closes the descriptors of
// Register that are still open.
func (l *Loop) Close() {
	if l.epfd < 0 {
		return
	}
	l.post.close()
	l.killAll()
	for _, d := range l.table { // a thread that would close d may have been killed before it ran
		if d != nil && d.flags&(rawFD|idleFD) == 0 {
			l.Layer().CloseDescriptor(d)
		}
	}
	l.pool.Close()
	if h := l.places.helper; h != nil {
		h.co.Close()
	}
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
	if l.threads == 0 || !l.runq.empty() || !l.turn.empty() || !l.lowPriority.empty() ||
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

// minStall is how long a thread must hold its loop for the waits of others to be extended by that.
const minStall = 100 * time.Millisecond

func (l *Loop) tick() {
	before := l.wall
	l.wall = time.Now()
	if d := l.wall.Sub(before); d > minStall {
		l.stalled += d
	}
	l.elapsed = l.wall.Sub(l.start)
	l.now = l.elapsed.Milliseconds()
}

// after returns the wheel's time that is d after the loop's last reading of the clock, and never if
// d is negative. It rounds up, so that no timer is early.
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
func (l LoopLayer) Logger() *slog.Logger { return l.log }

// Time returns when this turn of the loop began to act on its events.
func (l *Loop) Time() time.Time { return l.wall }

// Now is Time by the clock of the function Now.
func (l *Loop) Now() time.Duration { return l.elapsed + l.origin }

// Now returns the time by the monotonic clock since the process began. It reads one clock, where
// time.Now reads two, and is never 0. AdvanceClock does not change it. Any goroutine may call it.
func Now() time.Duration { return time.Since(epoch) }

// At returns the point in time at which Now returns now.
func At(now time.Duration) time.Time { return epoch.Add(now) }

var epoch = time.Now().Add(-time.Nanosecond)

// Clock returns where t is on the loop's own clock, which counts from when the loop was made, and
// which AdvanceClock moves forward: timers of that clock then expire earlier.
func (l LoopLayer) Clock(t time.Time) time.Duration {
	if t == l.wall { // mostly
		return l.elapsed
	}
	return t.Sub(l.start)
}

// AdvanceClock moves the loop's own clock forward by d, as if d had passed without any event:
// timers and limits of the loop expire that much earlier. It is for tests of long waits. Time and
// time.Now stay as they are. The caller is on the loop; a negative d counts as 0.
func (l LoopLayer) AdvanceClock(d time.Duration) {
	d = max(d, 0)
	l.start = l.start.Add(-d)
	l.elapsed, l.origin = l.elapsed+d, l.origin-d
}

// Stats returns what the loop has counted.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Calls, s.Queued, s.NoWorker = l.workers.running, l.workers.queue.Len(), l.workers.missed
	s.Threads, s.Timers, s.Age = l.threads, l.wheel.Pending(), time.Since(l.made)
	s.Remainders = len(l.putOffs.remainders)
	s.Working, s.Parked = l.pool.Used(), l.pool.Len()
	return s
}

// Panicked returns how many threads have ended with a panic that the loop has logged. Any goroutine
// may call it.
func (l *Loop) Panicked() int64 { return l.panics.Load() }

// Current returns the running thread, or nil if the loop itself runs. It is for code on a thread
// that has no parameter for the thread, such as the methods of a net.Conn.
func (l LoopLayer) Current() *Thread { return l.current }

// Check panics, under the invariants build tag, unless the caller is the running thread, or the
// loop itself while no thread is running. It is for methods that have no parameter for the thread,
// such as those of a net.Conn, of an object that belongs to a loop: another goroutine must not use
// the object.
func (l LoopLayer) Check() {
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

// Threads returns how many threads have not ended, without daemons (see MarkDaemon).
func (l *Loop) Threads() int { return l.threads - l.daemons }

// MarkDaemon makes t a daemon, a thread without work of its own: it waits for other threads, as a
// connection to an upstream that requests share, or for the end of the loop. Run does not return
// before t has ended, but Threads does not count t, so that a stop does not wait for its sake.
// MarkDaemon is called on the loop.
func (t ThreadLayer) MarkDaemon() {
	if t.own.flags&(daemon|ended) == 0 {
		t.own.flags |= daemon
		t.loop.daemons++
	}
}

// resume makes t run: it goes on where it yielded, or its task begins on a free coroutine. Then
// resume acts on the value that t yields. It reports whether another goroutine has become the loop,
// see RunInPlace.
func (l *Loop) resume(t *Thread) (replaced bool) {
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
	for v == coro.Make(coro.Yield, inPlace) && !c.Parked() && !c.Dead() {
		t = l.current
		l.current = nil
		if l.runInPlace(t) {
			return true
		}
		l.enter(t, c)
		v = c.Resume()
	}
	t = l.current // another thread, if nextTask has begun its task; nil if all tasks have returned
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
	default:
		l.yielded(t, v)
	}
	return false
}

// yielded acts on what t, which goes on later, has yielded.
func (l *Loop) yielded(t *Thread, v coro.Value) {
	l.unlistIfFirst(t)
	t.own.flags = t.own.flags.next(v.Code())
	if t.own.fd >= 0 && t.own.edges.outside() {
		l.enterEpoll(&t.own, v.Code() != coro.Yield)
	}
	switch {
	case v.Code() != coro.Yield:
		d := &t.own
		if v.Code() >= coro.AsyncAwaitRead {
			d = l.table[v.FD()] // which the thread has claimed
		}
		if l.arm(d) {
			l.ready(t, byEvent)
		}
	case v.FD() == lowPriority:
		l.enqueue(&l.lowPriority, t, byEvent)
	default:
		l.ready(t, byEvent)
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
	if t.own.fd >= 0 && t.own.edges.outside() {
		l.enterEpoll(&t.own, v.Code() != coro.Yield)
	}
	if v.Code() != coro.Yield && !l.arm(&t.own) {
		return
	}
	q := &l.runq
	if v.Code() == coro.Yield { // after the threads of this turn: see WakeThisTurn
		q = &l.turn
	}
	l.enqueue(q, t, byEvent)
}

// logPanic logs the panic of t's task, if there was one, and notes it as t's error.
func (l *Loop) logPanic(t *Thread) {
	if p := t.co.Panic(); p != nil {
		l.panics.Add(1)
		l.log.Error("loop: panic in a green thread", "panic", p.Value, "stack", string(p.Stack))
		t.extra().err = p
	}
}

// nextTask is called on a coroutine whose task has returned, while the loop waits for the
// coroutine. If the next thread in the queue is idle, the coroutine runs its task. Under load, most
// requests are answered without waiting, and so most cost no handoff.
func (l *Loop) nextTask(c *coro.Coro, v coro.Value) coro.Task {
	if c.Killed() {
		return nil // see RunBeforeEnd
	}
	l.taskReturned(c, v)
	for t := l.turn.head; t != nil && t.co == nil && !l.share.count(); t = l.turn.head {
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

package loop

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/base/invariants"
)

// MayRunInPlace reports whether RunInPlace is worth its while now: it is not if the loop is
// contended, if such functions come seldom, or if they have had their share of this turn. t calls
// it.
func (t ThreadLayer) MayRunInPlace() bool {
	p := &t.loop.places
	before := p.asked
	p.asked = t.loop.elapsed
	return p.asked-before <= placeSeldom && p.spent < turnShare && p.open && !t.loop.beside.contended
}

// RunInPlace runs f, which may block, in place: the loop waits for it, and t goes on when f has
// returned. Most functions that may block return at once. Those cost two switches of coroutines,
// and no scheduler stands between them and their thread. t calls RunInPlace if MayRunInPlace.
//
// If f waits, or computes for longer than a moment, the loop goes on without it, on another
// goroutine, and the one that has called f ends when f returns. So f may do what a function of
// StartGoroutine may do. Then t goes on, too, and returned is false. Otherwise f has returned after
// the time took.
func (t ThreadLayer) RunInPlace(f func(p InPlace)) (took time.Duration, returned bool) {
	t.mustRun()
	p := &t.loop.places
	if invariants.Enabled && !p.open {
		panic("loop: RunInPlace without MayRunInPlace")
	}
	p.next = f
	t.wokenBy = byPlace // unless the next loop wakes it
	t.co.Yield(coro.Make(coro.Yield, inPlace))
	if t.wokenBy != byPlace {
		return 0, false
	}
	return p.took, true
}

// InPlace is one run of a function of RunInPlace. The zero InPlace stands for one on a goroutine of
// its own.
type InPlace struct {
	loop *Loop
	run  uint64
}

// Leave lets the loop go on if it still waits for the function: that is going to wait for
// something. Any goroutine may call it.
func (p InPlace) Leave() {
	if p.loop != nil {
		p.loop.replace(p.run)
	}
}

// places is what a loop needs for RunInPlace.
type places struct {
	// The loop's.
	next   func(InPlace)
	thread *Thread       // that runs a function in place
	took   time.Duration // by the last one that has returned
	last   uint64        // a run's number, times 2
	helper *helper       // has run the last function; nil: none
	asked  time.Duration // when a thread last asked MayRunInPlace, by the loop's elapsed
	spent  time.Duration // by functions, since the loop has looked for events
	open   bool          // this part of the turn can go on on another goroutine

	// running is the number of the last run, and 1 more while the loop waits for it. Who takes the 1
	// away goes on as the loop.
	running atomic.Uint64

	guarded atomic.Bool   // the guard looks
	wakes   chan struct{} // it
	over    chan error    // from the loop's last goroutine: what Run returns
}

const (
	placeLimit = time.Millisecond // for how long a loop waits for a function, to twice as long
	sendAfter  = placeLimit / 5   // spent by functions, after which what threads have put off goes out
	guardedFor = 10               // looks without a run after which the guard sleeps

	// placeSeldom is how long after the last one a function comes that is not worth a guard.
	placeSeldom = 5 * time.Millisecond

	maxLocks = 16 // that a function may have left on its OS thread
)

// runInPlace runs the function of t, which has yielded, and reports whether another goroutine has
// become the loop. Then the caller must not touch it any more.
func (l *Loop) runInPlace(t *Thread) (replaced bool) {
	p := &l.places
	if p.spent >= sendAfter {
		l.sendPutOffs()
	}
	h := p.helper
	if h == nil {
		h = &helper{co: coro.New(l.pool.Handoff, nil)}
	}
	p.helper, p.thread = nil, t
	p.last += 2
	run := p.last
	l.pulse.beat()
	begin := Now()
	h.f, h.place, p.next = p.next, InPlace{l, run}, nil
	p.running.Store(run + 1)
	if !p.guarded.Load() {
		l.guard()
	}
	h.co.Start(h)
	replaced = !p.running.CompareAndSwap(run+1, run)
	switch c := h.co; {
	case c.Dead():
		c.Dispose()
	case c.Panic() != nil:
		panic(c.Panic())
	case replaced:
		c.Close()
	default:
		h.f, p.helper = nil, h
	}
	if replaced {
		return true
	}
	p.took = Now() - begin
	p.spent += p.took
	p.thread = nil
	return false
}

// goOn is called by a goroutine that has become the loop, and does not wait for what the last one
// waits for. The thread goes on first, and others get no place before the loop has looked for
// events: if one function is late, those behind it may be, too.
func (p *places) goOn(l *Loop) {
	t := p.thread
	if t == nil {
		return // it is the first
	}
	p.thread, p.open, p.spent = nil, false, turnShare
	l.sendPutOffs()
	var first queue
	l.enqueue(&first, t, byEvent)
	first.append(&l.turn)
	l.turn = first
}

// helper is a coroutine for functions that run in place. One whose function is late ends with it.
type helper struct {
	co    *coro.Coro
	f     func(InPlace)
	place InPlace
}

// Run implements coro.Task.
func (h *helper) Run(*coro.Coro) coro.Value {
	defer unlockOSThread()
	h.f(h.place)
	return 0
}

// unlockOSThread ends what a function has not: a coroutine that hands over with a locked OS thread
// would end the process.
func unlockOSThread() {
	for range maxLocks {
		runtime.UnlockOSThread()
	}
}

// replace makes another goroutine the loop if it still waits for the run.
func (l *Loop) replace(run uint64) {
	if l.places.running.CompareAndSwap(run+1, run) {
		go l.lead()
	}
}

// guard begins to look whether functions take too long.
func (l *Loop) guard() {
	p := &l.places
	if p.guarded.Store(true); p.wakes != nil {
		select {
		case p.wakes <- struct{}{}:
		default:
		}
		return
	}
	p.wakes = make(chan struct{}, 1)
	go p.watch(l)
}

// watch looks every placeLimit, until there was nothing to see for a while, or the loop has ended.
func (p *places) watch(l *Loop) {
	t := time.NewTicker(placeLimit)
	defer t.Stop()
	seen, quiet := uint64(0), 0
	for {
		select {
		case <-t.C:
		case <-l.ended:
			return
		}
		now := p.running.Load()
		switch {
		case now != seen:
			quiet = 0
		case now%2 == 1:
			l.replace(now - 1)
		default:
			quiet++
		}
		seen = now
		if quiet < guardedFor {
			continue
		}
		if p.guarded.Store(false); p.running.Load() != seen {
			p.guarded.Store(true)
			quiet = 0
			continue
		}
		t.Stop()
		select {
		case <-p.wakes:
		case <-l.ended:
			return
		}
		t.Reset(placeLimit)
		quiet = 0
	}
}

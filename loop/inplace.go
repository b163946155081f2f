package loop

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/coro"
)

// RunInPlace runs f at the end of the turn, in place: the loop waits for it. Most functions that
// may block return at once. Those cost two switches of coroutines, and no scheduler stands between
// them and their thread.
//
// If f waits, or computes for longer than a moment, the loop goes on without it, on another
// goroutine, and the one that has called f ends when f returns. So f may do what a function of
// StartGoroutine may do. Then late is called, on the loop, if it is not nil.
//
// A function gets a goroutine, and the zero InPlace, if the one before it was late, if the turn has
// no time left for it, if the loop is contended, or if such functions come seldom. Only the loop
// and its threads may call RunInPlace.
func (l LoopLayer) RunInPlace(f func(p InPlace), late func()) {
	p, before := &l.places, l.places.asked
	if p.asked = l.elapsed; l.beside.contended || p.asked-before > placeSeldom {
		l.Layer().StartGoroutine(func() { f(InPlace{}) })
		return
	}
	p.queue = append(p.queue, placed{f: f, late: late})
}

// InPlace is one run of a function, perhaps of RunInPlace. The zero InPlace stands for one on a
// goroutine of its own.
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
	queue  []placed
	begun  int           // of the queue
	late   func()        // of the function that the loop waits for
	last   uint64        // a run's number, times 2
	helper *coro.Coro    // has run the last function; nil: none
	asked  time.Duration // when RunInPlace was last called, by the loop's elapsed

	// running is the number of the last run, and 1 more while the loop waits for it. Who takes the 1
	// away goes on as the loop.
	running atomic.Uint64

	guarded atomic.Bool   // the guard looks
	wakes   chan struct{} // it
	over    chan error    // from the loop's last goroutine: what Run returns
}

const (
	placeLimit = time.Millisecond // for how long a loop waits for a function, to twice as long
	guardedFor = 10               // looks without a run after which the guard sleeps

	// placeSeldom is how long after the last one a function comes that is not worth a guard.
	placeSeldom = 5 * time.Millisecond

	maxLocks = 16 // that a function may have left on its OS thread
)

// runInPlace runs what was queued by RunInPlace, and reports whether another goroutine has become
// the loop. Then the caller must not touch it any more.
func (l *Loop) runInPlace() (replaced bool) {
	p := &l.places
	if len(p.queue) == 0 {
		return false
	}
	since := Now()
	for p.begun < len(p.queue) {
		if p.begun > 0 && Now()-since > turnShare {
			p.startRest(l)
			return false
		}
		next := &p.queue[p.begun]
		p.begun++
		c := p.helper
		if c == nil {
			c = coro.New(l.pool.Handoff, nil)
		}
		p.helper = nil
		p.last += 2
		run := p.last
		l.pulse.beat()
		next.place, p.late = InPlace{l, run}, next.late
		p.running.Store(run + 1)
		if !p.guarded.Load() {
			l.guard()
		}
		c.Start(next)
		replaced = !p.running.CompareAndSwap(run+1, run)
		switch {
		case c.Dead():
			c.Dispose()
		case c.Panic() != nil:
			panic(c.Panic())
		case replaced:
			c.Close()
		default:
			p.helper = c
		}
		if replaced {
			return true
		}
	}
	clear(p.queue)
	p.queue, p.begun = p.queue[:0], 0
	return false
}

// goOn is called by a goroutine that has become the loop, and does not wait for what the last one
// waits for.
func (p *places) goOn(l *Loop) {
	if p.begun == 0 {
		return // it is the first
	}
	if p.late != nil {
		p.late()
	}
	clear(p.queue[:p.begun-1]) // the last goroutine keeps the array
	p.startRest(l)
}

// startRest gives what has not begun goroutines.
func (p *places) startRest(l *Loop) {
	rest := p.queue[p.begun:]
	for _, next := range rest {
		l.Layer().StartGoroutine(func() { next.f(InPlace{}) })
	}
	clear(rest)
	p.queue, p.begun, p.late = nil, 0, nil
}

// placed is a function, and what a coroutine runs.
type placed struct {
	f     func(InPlace)
	late  func()
	place InPlace
}

// Run implements coro.Task.
func (p *placed) Run(*coro.Coro) coro.Value {
	defer unlockOSThread()
	p.f(p.place)
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

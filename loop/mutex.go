package loop

import (
	"container/list"
	"sync"
	"time"
)

// Mutex is a lock that threads may hold while they wait: a thread that waits for it lets its loop
// go on. A sync.Mutex that a thread holds during a wait can stop a loop for good: the next thread
// that locks it blocks the loop, and with it the thread that would unlock it.
//
// Threads of any loops and goroutines off the loops get the lock in the order in which they came,
// each from the one that unlocks it. The zero Mutex is unlocked. It must not be copied.
//
// A thread that is killed while it waits never gets the lock. One that holds it unlocks it if it
// has deferred that.
type Mutex struct{ m RWMutex }

// Lock locks m for the running thread t, which waits as in AwaitAny: for d at most, or without
// limit if d is negative. With an error, one of AwaitAny's, t does not have the lock.
//
// With nil in the place of t, the caller is a goroutine off the loops, such as a function in Await,
// and blocks; the error is ErrDeadlineExceeded.
func (m *Mutex) Lock(t *Thread, d time.Duration) error { return m.m.Lock(t, d) }

// TryLock locks m if it is free, and reports whether it was. Any goroutine may call it.
func (m *Mutex) TryLock() bool { return m.m.try(false) }

// Unlock unlocks m. Any thread or goroutine may call it. It panics if m is not locked.
func (m *Mutex) Unlock() { m.m.Unlock() }

// RWMutex is a Mutex that one writer holds, or any number of readers. Readers that come after a
// writer get the lock after it, so readers cannot keep a writer waiting for ever; and a reader must
// not lock m a second time.
type RWMutex struct {
	mu      sync.Mutex // held briefly
	holders int        // how many readers hold m; -1: a writer does
	queue   list.List  // of *lockWaiter
}

// Lock locks m for writing. Its arguments and its error are those of Mutex.Lock.
func (m *RWMutex) Lock(t *Thread, d time.Duration) error { return m.lock(t, d, false) }

// RLock locks m for reading. Its arguments and its error are those of Mutex.Lock.
func (m *RWMutex) RLock(t *Thread, d time.Duration) error { return m.lock(t, d, true) }

// Unlock ends the writing. It panics if no writer has m.
func (m *RWMutex) Unlock() { m.unlock(false) }

// RUnlock ends the reading of one reader. It panics if no reader has m.
func (m *RWMutex) RUnlock() { m.unlock(true) }

func (m *RWMutex) lock(t *Thread, d time.Duration, reads bool) error {
	if m.try(reads) {
		return nil
	}
	w := &lockWaiter{m: m, reads: reads, thread: t}
	if t == nil {
		return w.block(d)
	}
	locked := false
	defer func() {
		if !locked && w.has { // it came after the wait was given up, or t was killed
			m.unlock(reads)
		}
	}()
	if _, err := t.AwaitAny(d, w); err != nil {
		return err
	}
	locked = true
	return nil
}

// try takes m, if it is free and no other waits for it.
func (m *RWMutex) try(reads bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.queue.Len() == 0 && m.take(reads)
}

// take takes m if those that hold it let it. The caller holds m.mu.
func (m *RWMutex) take(reads bool) bool {
	switch {
	case reads && m.holders >= 0:
		m.holders++
	case m.holders == 0:
		m.holders = -1
	default:
		return false
	}
	return true
}

func (m *RWMutex) unlock(reads bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case reads && m.holders > 0:
		m.holders--
	case !reads && m.holders < 0:
		m.holders = 0
	default:
		panic("loop: unlock of a mutex that is not locked")
	}
	m.grant()
}

// pass gives m to the first in the queue, and to as many after it as can have it at the same time.
// The caller holds m.mu.
func (m *RWMutex) grant() {
	for e := m.queue.Front(); e != nil; e = m.queue.Front() {
		w := e.Value.(*lockWaiter)
		if !m.take(w.reads) {
			return
		}
		m.queue.Remove(e)
		w.has = true
		if w.thread != nil {
			Notify(w.thread)
		} else {
			close(w.granted)
		}
	}
}

// lockWaiter is one wait for an RWMutex; a Source, if a thread waits.
type lockWaiter struct {
	m       *RWMutex
	reads   bool
	thread  *Thread       // nil: a goroutine waits
	granted chan struct{} // for the goroutine: closed once it has m

	// Guarded by m.mu.
	has   bool // it has got m
	entry *list.Element
}

// Watch implements Source.
func (w *lockWaiter) Watch(*Thread) error {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.entry = w.m.queue.PushBack(w)
	w.m.grant() // m may have been unlocked since try
	return nil
}

// Ready implements Source.
func (w *lockWaiter) Ready() bool {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	return w.has
}

// Unwatch implements Source.
func (w *lockWaiter) Unwatch(*Thread) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if !w.has {
		w.m.queue.Remove(w.entry)
		w.m.grant() // readers may wait after a writer that has given up
	}
}

// block waits as a goroutine off the loops does.
func (w *lockWaiter) block(d time.Duration) error {
	w.granted = make(chan struct{})
	_ = w.Watch(nil)
	var limit <-chan time.Time
	if d >= 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-w.granted:
		return nil
	case <-limit:
	}
	if w.Unwatch(nil); w.has { // just before
		return nil
	}
	return ErrDeadlineExceeded
}

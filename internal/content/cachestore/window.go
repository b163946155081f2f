package cachestore

import (
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
)

// wideWindow is how much of an answer is in memory that is not kept there, in bytes, about, while
// there is room for many of them.
const wideWindow = 1 << 20

// hold reserves memory for n bytes more of what is going to be kept. It reports false if there is
// none; then the bytes pass, like those of what is not kept.
func (f *Fill) hold(n int64, kept bool) bool {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.narrow()
	f.held += n
	if kept && s.memory.reserve(n, false) {
		return true
	}
	f.passing += n
	s.memory.pass(n)
	return false
}

// narrow has windows be small while half of the memory is reserved. The caller holds s.mu.
func (s *Store) narrow() {
	if tight := s.memory.tight(); tight != s.tight.Load() {
		s.tight.Store(tight)
	}
}

// ledPatience is patience where a client waits that reads all that comes. Readers that are as fast
// as such clients need less.
const ledPatience = time.Second

// window is how much of the answer may be in memory, in bytes, about, if it is not kept there.
// Where one client waits for others, it is what the answer may have as long as it is going to be
// kept, so that it waits less.
func (f *Fill) window() int64 {
	switch {
	case f.store.tight.Load():
		return chunk
	case f.led:
		return max(wideWindow, min(f.most, f.store.options.Load().Memory/8))
	}
	return wideWindow
}

// release gives back the memory of what trim has forgotten.
func (f *Fill) release() {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.giveBack(f.trimmed)
	f.trimmed = 0
}

// giveBack gives back reserved memory. The caller holds Store.mu.
func (f *Fill) giveBack(n int64) {
	passing := max(0, n-(f.held-f.passing))
	f.store.memory.release(n, passing)
	f.held -= n
	f.passing -= passing
	f.store.narrow()
}

// makeRoom waits until there is room in the window, and forgets what nobody needs any more. What is
// kept in memory needs no room.
func (f *Fill) makeRoom(t *loop.Thread, patience time.Duration) error {
	for {
		f.mu.Lock()
		if f.kept && f.out == nil {
			f.mu.Unlock()
			return nil
		}
		trimmed := f.trim()
		kept, room, readers := f.kept, f.roomy(), len(f.readers)
		wait, bearable := time.Duration(-1), true // one reader alone holds up nobody, and has a limit
		switch {
		case kept:
			wait = slowDisk
		case !room && f.led:
			wait, bearable = f.lag(t.Loop().Layer().Clock(time.Now()), ledPatience)
		case !room && readers > 1 && patience >= 0:
			wait, bearable = f.lag(t.Loop().Layer().Clock(time.Now()), patience)
		}
		f.mu.Unlock()
		if trimmed {
			f.release()
		}
		switch {
		case !kept && readers == 0:
			return ErrUnread
		case room:
			return nil
		case !bearable:
			f.cutSlow()
			continue
		}
		var checked uint64
		if kept {
			checked = f.out.disk.checked.Load()
		}
		_, err := t.AwaitAny(wait, &f.room)
		switch {
		case err == nil:
		case err != loop.ErrDeadlineExceeded:
			return err
		case kept && f.Keep(true):
			f.out.disk.late(err, checked)
			f.Keep(false)
		}
	}
}

// needed returns the offset from which on the body is needed in memory. The caller holds f.mu.
func (f *Fill) needed() (first int64) {
	if f.out != nil {
		first = f.out.written
	}
	if !f.kept || f.done {
		read := f.size
		for _, r := range f.readers {
			read = min(read, r.off)
		}
		first = max(first, read)
	} else if f.out == nil {
		return 0
	}
	return first
}

// trim forgets whole chunks that nobody will read from memory, and reports whether there is
// something to release. The caller holds f.mu.
func (f *Fill) trim() bool {
	for first := f.needed(); f.base+chunk <= first; f.base += chunk {
		f.trimmed += int64(len(f.chunks[0]))
		f.chunks = slices.Delete(f.chunks, 0, 1)
	}
	return f.trimmed > 0
}

// roomy reports whether there is room in the window. If not, it counts the readers that have to
// read on before there is. The caller holds f.mu.
func (f *Fill) roomy() bool {
	f.goal, f.behind = f.size-f.window(), 0
	switch {
	case f.out != nil && f.out.written > f.goal:
		return true
	case f.kept:
		return f.out == nil
	}
	for _, r := range f.readers {
		if r.off <= f.goal {
			f.behind++
		}
	}
	return f.behind == 0
}

// passed is called after a reader that was at an offset has read on, or has left. It wakes the
// writer if that has waited for this reader as the last one. The caller holds f.mu.
func (f *Fill) passed(r *Reader, before int64) {
	if f.writer == nil || f.behind == 0 || before > f.goal || r.off <= f.goal && r.err == nil {
		return
	}
	if f.behind--; f.behind == 0 {
		loop.Notify(f.writer)
	}
}

// wakeWriter wakes the thread that waits for room, if there is one. The caller holds f.mu.
func (f *Fill) wakeWriter() {
	if f.writer != nil {
		loop.Notify(f.writer)
	}
}

// lag measures how long the slowest readers take to read what had come at a time. It returns for
// how long the writer may still wait for them. It reports false if they take longer than patience,
// and another one has read all that there is, as one that leads has. The caller holds f.mu.
func (f *Fill) lag(now, patience time.Duration) (time.Duration, bool) {
	first, last := f.size, int64(0)
	if f.led {
		last = f.size
	}
	for _, r := range f.readers {
		first, last = min(first, r.off), max(last, r.off)
	}
	if first >= f.mark || now-f.marked >= patience && last < f.size {
		f.mark, f.marked = f.size, now
	}
	left := patience - (now - f.marked)
	return left, left > 0
}

// cutSlow cuts off those readers that hold up the others.
func (f *Fill) cutSlow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range slices.Clone(f.readers) {
		if r.off < f.mark {
			r.err = ErrSlow
			f.leave(r)
			r.wake()
		}
	}
	f.mark = 0
}

// room is what Write waits for: a loop.Source.
type room struct{ fill *Fill }

// Watch implements loop.Source.
func (r *room) Watch(t *loop.Thread) error {
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	r.fill.writer = t
	return nil
}

// Ready implements loop.Source.
func (r *room) Ready() bool {
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	return r.fill.roomy()
}

// Unwatch implements loop.Source.
func (r *room) Unwatch(*loop.Thread) {
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	r.fill.writer = nil
}

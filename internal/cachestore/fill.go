package cachestore

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/loop"
)

// Errors of fills.
var (
	// ErrLength says that a body is not as long as was declared.
	ErrLength = errors.New("cachestore: the body has another length than declared")
	// ErrNotKept is the error of Commit for an answer that is whole, and is not kept: it is too long,
	// or there is no room, or it was purged while it came.
	ErrNotKept = errors.New("cachestore: the answer is not kept")
	// ErrUnread is the error of Write where the answer is not kept, and no reader is left.
	ErrUnread = errors.New("cachestore: nobody reads the answer")
	// ErrSlow is the error of a reader that has held up the others for too long.
	ErrSlow = errors.New("cachestore: other readers could not wait")
	// ErrAgain is the error of a reader of an answer that turned out to be kept already: Lookup finds
	// it.
	ErrAgain = errors.New("cachestore: look up again")
)

// Begin begins to fill a key, or joins those who fill it. seen is what Lookup has returned for the
// key: if there is something else by now, Begin returns nothing, and the caller looks up again.
//
// match says whether an answer's head is what the caller asks for: the right variant, and one that
// may be shared. A caller gets a Reader alone if an answer is on its way whose head matches, or has
// not come yet. Otherwise it gets a Fill as well, and has to fill it; its Reader reads what it
// fills. Each Reader is closed, and each Fill ends with Commit, Freshen or Abort.
//
// If the head does not match after all, the caller closes its Reader and calls Begin again. match
// must not call the store.
func (s *Store) Begin(key []byte, seen []*Object, match func(*Head) bool) (*Reader, *Fill) {
	hash := s.hash(key)
	unfit := s.unfit(hash, key, match)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.table.find(hash, key)
	switch {
	case e != nil && e.key == "":
		e = s.name(e, string(key))
	case e == nil:
		e = &entry{key: string(key), hash: hash}
		s.table.add(e)
	}
	if !slices.Equal(e.list(), seen) {
		return nil, nil
	}
	m := e.extra()
	for _, f := range m.fills {
		if h := f.head.Load(); h != nil && unfit[f] == h {
			continue
		}
		if r := f.join(match); r != nil {
			return r, nil
		}
	}
	f := &Fill{store: s, entry: e, since: s.purges.now, kept: !s.closed, length: -1}
	f.room.fill = f
	f.held = fillCost + size(len(key))
	s.memory.reserve(f.held, true)
	s.filling[f] = struct{}{}
	if len(m.fills) < maxFills {
		m.fills = append(m.fills, f)
	}
	return f.join(nil), f
}

// unfit returns those fills of a key whose heads do not match. match takes its time, so nobody waits
// for it.
func (s *Store) unfit(hash uint64, key []byte, match func(*Head) bool) map[*Fill]*Head {
	e := s.table.find(hash, key)
	if e == nil || e.more.Load() == nil {
		return nil
	}
	s.mu.Lock()
	var fills []*Fill
	if m := e.more.Load(); m != nil {
		fills = slices.Clone(m.fills)
	}
	s.mu.Unlock()
	if len(fills) == 0 {
		return nil
	}
	unfit := make(map[*Fill]*Head)
	for _, f := range fills {
		switch h := f.head.Load(); {
		case h == nil:
		case match(h):
			return unfit // that one is joined
		default:
			unfit[f] = h
		}
	}
	return unfit
}

// chunk is the size of a piece of a body on its way, in bytes.
const chunk = 64 << 10

// window is how much of an answer is in memory that is not kept there, in bytes, about, while there is
// room for many of them.
const window = 1 << 20

// maxFills bounds the fills of one key that others look through to join one.
const maxFills = 64

// fillCost is what a fill takes beside its key and its body, in bytes, about.
const fillCost = 1 << 10

// Fill is an answer that comes. One goroutine or thread at a time calls its methods.
type Fill struct {
	store *Store
	entry *entry
	since uint64 // the last purge before it was begun

	head   atomic.Pointer[Head]
	length int64 // declared; -1: unknown
	most   int64 // the longest body that is kept
	split  int64 // the longest one that stays in memory; -1: all do
	room   room

	held    int64 // bytes reserved in memory; guarded by Store.mu, as is passing
	passing int64 // of held, see place

	mu      sync.Mutex
	kept    bool
	spoiled bool   // purged meanwhile
	stale   uint32 // the Unix time when it was purged softly; 0: it was not
	alone   bool   // see Alone
	chunks  [][]byte
	base    int64 // the offset of the first chunk, a multiple of chunk
	size    int64 // of what has come
	trimmed int64 // bytes of held whose chunks are gone
	end     error // io.EOF: it is complete; nil: more may come
	readers []*Reader
	writer  *loop.Thread // waits for room
	goal    int64        // it waits until no reader is at that offset, or before it
	behind  int          // so many are
	mark    int64        // see lag
	marked  time.Duration
	object  *Object
	done    bool    // object is final
	out     *output // nil: the body stays in memory
}

// Start gives the answer's head. length is that of the body in bytes, -1 if it is not known. Readers
// wake up.
func (f *Fill) Start(h Head, length int64) {
	o := f.store.options.Load()
	f.length = length
	f.most = cmp.Or(o.MaxObject, o.Memory/8)
	f.split = -1
	if d := f.store.disk; d != nil && d.ready.Load() {
		f.most = cmp.Or(o.MaxObject, o.Disk/8)
		f.split = o.Split
	}
	f.mu.Lock()
	f.head.Store(&h)
	f.wake()
	f.mu.Unlock()
	if length > f.most || f.split >= 0 && length > f.split && !f.toDisk() {
		f.Keep(false)
	}
}

// Keep says whether the answer is going to be kept, as things stand. With false, the caller decides
// that it is not: readers get what comes, and then it is forgotten.
func (f *Fill) Keep(keep bool) bool {
	f.mu.Lock()
	changes := f.kept && !keep
	f.kept = f.kept && keep
	kept := f.kept
	if changes {
		f.schedule()
		f.wakeWriter()
	}
	f.mu.Unlock()
	if changes {
		f.unlist() // a later reader would miss the beginning
	}
	return kept
}

// Alone lets nobody join until the head has come, and shows what the answer is.
func (f *Fill) Alone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = true
}

// unlist lets nobody join any more.
func (f *Fill) unlist() {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.unlistLocked()
}

func (f *Fill) unlistLocked() {
	m := f.entry.more.Load()
	if m == nil {
		return
	}
	if i := slices.Index(m.fills, f); i >= 0 {
		m.fills = slices.Delete(m.fills, i, i+1)
		f.entry.slim()
	}
	f.store.tidy(f.entry)
}

// Write adds to the body, and copies p. Where what is not kept would take too much memory, t waits
// until readers have read. A reader that holds up others for longer than patience is cut off. The
// error is ErrUnread, ErrLength, or one of a wait; then the caller calls Abort.
func (f *Fill) Write(t *loop.Thread, p []byte, patience time.Duration) error {
	for len(p) > 0 {
		n := min(len(p), chunk)
		if err := f.write(t, p[:n], patience); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (f *Fill) write(t *loop.Thread, p []byte, patience time.Duration) error {
	size := f.size + int64(len(p)) // the filling goroutine alone changes it
	if f.length >= 0 && size > f.length {
		return ErrLength
	}
	f.mu.Lock()
	kept, done := f.kept, f.done
	f.mu.Unlock()
	if done {
		return ErrUnread
	}
	if !f.hold(int64(len(p)), kept) || size > f.most {
		f.Keep(false)
	}
	if f.Keep(true) {
		switch {
		case f.out != nil:
			if !f.reserve(size) {
				f.Keep(false)
			}
		case f.split >= 0 && size > f.split && !f.toDisk():
			f.Keep(false)
		}
	}
	if err := f.makeRoom(t, patience); err != nil {
		return err
	}
	f.mu.Lock()
	f.append(p)
	f.schedule()
	f.wake()
	f.mu.Unlock()
	return nil
}

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

// window is how much of an answer is in memory that is not kept there, in bytes, about.
func (f *Fill) window() int64 {
	if f.store.tight.Load() {
		return chunk
	}
	return window
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

// append adds p, which is no longer than a chunk. The caller holds f.mu. Bytes that are there do
// not change, so readers copy them without the lock.
func (f *Fill) append(p []byte) {
	for len(p) > 0 {
		i := int((f.size - f.base) / chunk)
		if i == len(f.chunks) {
			n := len(p)
			if f.length >= 0 {
				n = int(min(f.length-f.size, chunk))
			} else if f.size > 0 {
				n = chunk
			}
			f.chunks = append(f.chunks, make([]byte, 0, n))
		}
		c := f.chunks[i]
		n := min(len(p), chunk-len(c))
		f.chunks[i] = append(c, p[:n]...)
		f.size += int64(n)
		p = p[n:]
	}
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
		wait, bearable := time.Duration(-1), true // one reader holds up nobody, and has a limit
		switch {
		case kept:
			wait = slowDisk
		case !room && readers > 1 && patience >= 0:
			wait, bearable = f.lag(t.Loop().Clock(time.Now()), patience)
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
			checked = f.store.disk.checked.Load()
		}
		_, err := t.AwaitAny(wait, &f.room)
		switch {
		case err == nil:
		case err != loop.ErrDeadlineExceeded:
			return err
		case kept && f.Keep(true):
			f.store.disk.late(err, checked)
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

// trim forgets whole chunks that nobody will read from memory, and reports whether there is something
// to release. The caller holds f.mu.
func (f *Fill) trim() bool {
	for first := f.needed(); f.base+chunk <= first; f.base += chunk {
		f.trimmed += int64(len(f.chunks[0]))
		f.chunks = slices.Delete(f.chunks, 0, 1)
	}
	return f.trimmed > 0
}

// roomy reports whether there is room in the window. If not, it counts the readers that have to read
// on before there is. The caller holds f.mu.
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

// passed is called after a reader that was at an offset has read on, or has left. It wakes the writer
// if that has waited for this reader as the last one. The caller holds f.mu.
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

// lag measures how long the slowest readers take to read what had come at a time. It returns for how
// long the writer may still wait for them. It reports false if they take longer than patience, and
// another one has read all that there is. The caller holds f.mu.
func (f *Fill) lag(now, patience time.Duration) (time.Duration, bool) {
	first, last := f.size, int64(0)
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

// Readers returns how many there are, so that a fill can be given up that nobody reads.
func (f *Fill) Readers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.readers)
}

// wake wakes the readers that wait. The caller holds f.mu.
func (f *Fill) wake() {
	for _, r := range f.readers {
		r.wake()
	}
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

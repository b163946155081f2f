package cachestore

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/loop"
)

// Errors of fills.
var (
	// ErrLength says that a body is not as long as was declared.
	ErrLength = errors.New("cachestore: the body has another length than declared")
	// ErrNotKept is the error of Commit for an answer that is whole, and is not kept: it is too
	// long, or there is no room, or it was purged while it came.
	ErrNotKept = errors.New("cachestore: the answer is not kept")
	// ErrUnread is the error of Write where the answer is not kept, and no reader is left.
	ErrUnread = errors.New("cachestore: nobody reads the answer")
	// ErrSlow is the error of a reader that has held up the others for too long.
	ErrSlow = errors.New("cachestore: other readers could not wait")
	// ErrAgain is the error of a reader of an answer that turned out to be kept already: Lookup
	// finds it.
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
func (s *Store) Begin(key Key, seen []*Object, match func(*Head) bool) (*Reader, *Fill) {
	return s.begin(key, seen, match, nil, nil)
}

// BeginLed is Begin for a caller that has a client which is no reader (see Fill.Lead). Its Fill is
// f, the zero Fill, and comes without a Reader. owner is that of Fill.Own.
func (s *Store) BeginLed(key Key, seen []*Object, match func(*Head) bool, f *Fill,
	owner any) (*Reader, *Fill) {
	return s.begin(key, seen, match, f, owner)
}

// begin is Begin, and with an f BeginLed.
func (s *Store) begin(key Key, seen []*Object, match func(*Head) bool, f *Fill,
	owner any) (*Reader, *Fill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := unsafe.String(unsafe.SliceData(key.text), len(key.text))
	e := s.entryOf(key.hash, text)
	var unfit map[*Fill]*Head
	if fills := headed(e); len(fills) > 0 {
		s.mu.Unlock()
		unfit = unfits(fills, match)
		s.mu.Lock()
		e = s.entryOf(key.hash, text)
	}
	var space [4]*Object
	if !same(s.table.find(&s.memory.slots, key.hash, text, space[:0]), seen) {
		return nil, nil
	}
	if e == nil {
		e = s.addEntry(key.hash, key.text)
	} else if e.key == "" {
		e.key = strings.Clone(text)
	}
	for _, f := range e.fills {
		if h := f.head.Load(); h != nil && unfit[f] == h {
			continue
		}
		if r := f.join(match); r != nil {
			return r, nil
		}
	}
	var r *Reader
	if f != nil {
		f.led, f.owner, f.first.err = true, owner, os.ErrClosed
		f.readers = f.few[:0]
	} else {
		f = fills.Get().(*Fill)
		f.pooled, r = true, &f.first
		f.readers = append(f.few[:0], r)
	}
	f.store, f.entry, f.since, f.kept, f.length = s, e, s.purges.now, !s.closed, -1
	f.room.fill, f.first.fill = f, f
	f.chunks = f.piece[:0]
	f.held = fillCost + size(len(key.text))
	s.memory.reserve(f.held, true)
	e.users++
	if f.older = s.filling; f.older != nil {
		f.older.newer = f
	}
	s.filling = f
	s.fillers++
	if len(e.fills) < maxFills {
		e.fills = append(e.fills, f)
	} else {
		e.apart = append(e.apart, f)
	}
	return r, f
}

// unfill takes a fill out of those that come. The caller holds s.mu.
func (s *Store) unfill(f *Fill) {
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		s.filling = f.older
	}
	if f.older != nil {
		f.older.newer = f.newer
	}
	f.older, f.newer = nil, nil
	s.fillers--
}

// headed returns the fills of an entry whose heads have come, for unfits. e may be nil. The caller
// holds s.mu.
func headed(e *entry) (fills []*Fill) {
	if e == nil {
		return nil
	}
	for _, f := range e.fills {
		if f.head.Load() != nil {
			f.seen = true
			fills = append(fills, f)
		}
	}
	return fills
}

// unfits returns those fills whose heads do not match, up to one that does. match takes its time,
// so nobody waits for it.
func unfits(fills []*Fill, match func(*Head) bool) map[*Fill]*Head {
	unfit := make(map[*Fill]*Head)
	for _, f := range fills {
		h := f.head.Load()
		if match(h) {
			break // that one is joined
		}
		unfit[f] = h
	}
	return unfit
}

// chunk is the size of a piece of a body on its way, in bytes.
const chunk = 64 << 10

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
	beyond bool  // see Beyond
	room   room

	held    int64 // bytes reserved in memory; guarded by Store.mu, as are the next
	passing int64 // of held, see bounds

	older, newer *Fill // in Store.filling
	seen         bool  // others have it, or had it
	pooled       bool  // it is of fills

	mu      sync.Mutex
	kept    bool
	purged  bool   // purged meanwhile
	stale   uint32 // the Unix time when it was purged softly; 0: it was not
	alone   bool   // see Alone
	led     bool   // see Lead
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
	few     [1]*Reader // readers begins as this one,
	first   Reader     // and has this one
	piece   [1][]byte  // chunks begins as this one
	space   Head       // of head
	owner   any        // see Own
	done    bool       // object is final
	using   *long      // of object, while there are readers
	client  netip.Addr // for which it is asked for, if that reads it; see For
	claimed int64      // bytes of its share; see shares
	out     *output    // nil: the body stays in memory
}

// fills are those that were released.
var fills = sync.Pool{New: func() any { return new(Fill) }}

// Release says that the caller of Begin, and whoever has got the Fill or its Reader from that, uses
// them no more: they are going to be others, unless somebody else may have them. It reports whether
// that is so. Then the memory of BeginLed's is the caller's again.
func (f *Fill) Release() bool {
	// What the disk has nothing to do with is done by those who call this, and nobody sees it any more
	// from then on. So there is nobody to lock out.
	free := f.out == nil && f.done && !f.seen && f.first.err != nil
	if free && f.pooled && !invariants.Enabled {
		*f = Fill{}
		fills.Put(f)
	}
	return free
}

// Fetch says that the answer is going to be there in a moment, and has the processor fetch what
// keeping it needs: other requests have been served since that was looked at.
func (f *Fill) Fetch() {
	if e := f.entry; e != nil {
		f.store.table.fetch(e.hash)
		f.store.memory.ghosts.fetch(e.hash)
	}
}

// Start gives the head of an answer that is to be kept. length is that of the body in bytes, -1 if
// it is not known. Readers wake up. It returns where the head is, which nobody changes. It is nil
// if the answer is not going to be kept: then readers have not got the head, and the caller calls
// Abort.
func (f *Fill) Start(h Head, length int64) *Head {
	f.length = length
	f.most, f.split = f.store.longest()
	f.mu.Lock()
	f.space = h
	kept := f.kept
	f.mu.Unlock()
	if !kept || !f.fits(&f.space, length) {
		f.Keep(false)
		return nil
	}
	f.mu.Lock()
	f.head.Store(&f.space)
	f.wake()
	f.mu.Unlock()
	return &f.space
}

// fits reports whether there is a place for a body of that length, and has it go to disk if that is
// the one.
func (f *Fill) fits(h *Head, length int64) bool {
	onDisk := f.split >= 0 && length > f.split
	return length <= f.most && (!onDisk || f.toDisk(h)) &&
		(onDisk || !f.store.overused(length) && f.claim(length))
}

// Room is how long the body may be at most, once it is started.
func (f *Fill) Room() int64 { return f.most }

// TooLong reports whether the body is longer than any that is kept, as far as it is known. There
// are other reasons why a body is not kept, and these may be over in a moment.
func (f *Fill) TooLong() bool { return max(f.length, f.size) > f.most }

// Beyond reports whether the body is not kept because the client for which it is asked for has its
// share already. For another client it may be kept. The filling goroutine calls it.
func (f *Fill) Beyond() bool { return f.beyond }

// For says for which client it is asked for, which reads it by the Reader of Begin: a long body
// that comes counts for its share. It is called before Start.
func (f *Fill) For(client netip.Addr) { f.client, f.first.client = client, client }

// claim takes of the client's share what a body of n bytes needs, if it is long. It reports false
// if that is too much for the client. The filling goroutine calls it.
func (f *Fill) claim(n int64) bool {
	if n < Long || n <= f.claimed {
		return true
	}
	if !f.store.claim(f.client, n-f.claimed) {
		f.beyond = true
		return false
	}
	f.claimed = n
	return true
}

// Own says whose the fill is, for Reader.Owner.
func (f *Fill) Own(owner any) {
	f.mu.Lock()
	f.owner = owner
	f.mu.Unlock()
}

// Owner returns who fills; nil: it has not said so yet.
func (r *Reader) Owner() any {
	r.fill.mu.Lock()
	defer r.fill.mu.Unlock()
	return r.fill.owner
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
		f.unlist(false) // a later reader would miss the beginning
	}
	return kept
}

// Alone lets nobody join until the head has come, and shows what the answer is.
func (f *Fill) Alone() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.alone = true
}

// Lead says whether who fills sends the answer to a client that is no reader. Then that client
// waits whenever Write does, so that a reader holds it up, even if there is no other one; but not
// for longer than a second.
func (f *Fill) Lead(leads bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.led = leads
}

// unlist lets nobody join any more. apart says that the answer may be kept all the same.
func (f *Fill) unlist(apart bool) {
	s := f.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.unlistLocked(apart)
}

func (f *Fill) unlistLocked(apart bool) {
	m := f.entry
	if m == nil { // it has ended
		return
	}
	if i := slices.Index(m.fills, f); i >= 0 {
		m.fills = slices.Delete(m.fills, i, i+1)
		if apart {
			m.apart = append(m.apart, f)
		}
	} else if i = slices.Index(m.apart, f); i >= 0 && !apart {
		m.apart = slices.Delete(m.apart, i, i+1)
	}
	if m.few[0] == f { // fills has grown, and left it there
		m.few[0] = nil
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
		case f.split >= 0 && size > f.split && !f.toDisk(f.head.Load()):
			f.Keep(false)
		case f.out == nil && f.length < 0 && (f.store.overused(size) || !f.claim(size)):
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
			if f.chunks = append(f.chunks, make([]byte, 0, n)); i > 0 {
				f.piece[0] = nil // chunks has grown, and left it there
			}
		}
		c := f.chunks[i]
		n := min(len(p), chunk-len(c))
		f.chunks[i] = append(c, p[:n]...)
		f.size += int64(n)
		p = p[n:]
	}
}

// forget forgets the bytes that are in memory. The caller holds f.mu.
func (f *Fill) forget() { f.chunks, f.piece[0] = nil, nil }

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

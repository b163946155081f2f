package cachestore

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/lwango/lwango/loop"
)

// MaxVariants bounds the variants of one resource: the one that was kept the longest time ago makes
// way.
const MaxVariants = 32

// Store keeps objects.
type Store struct {
	seed    maphash.Seed
	table   *table
	purged  atomic.Uint64 // the last purge that concerns objects which are found, see examine
	storage               // where the objects are

	dropped, damaged, failed, gone atomic.Uint64 // see Stats

	mu      sync.Mutex // held briefly; below it is a Fill's
	closed  bool
	purges  purges
	filling *Fill // the newest of those that come; see Fill.older
	fillers int64 // how many those are

	entries entries
	spare   []*entry // of no key
	number  uint32   // of the store in this process
	ids     uint64   // the last answer's

	tight     atomic.Bool // half of the memory is reserved
	shares    shares
	sending   atomic.Int64 // bytes of long bodies in memory that are sent just now
	lingering int64        // bytes of memory that readers of finished fills have

	fills    uint64
	unloaded uint64 // heads that were evicted, not objects

	leaving map[uint64]int // files that no entry has, and that may be on disk still; see unlink
	failing []leaving      // those of them that the disk would not remove
	unlinks int            // the others
}

// New makes a store. It fails if the folder cannot be used, and with ErrLocked if another process
// uses it. The store is ready at once; what the folder has is found bit by bit.
func New(o Options) (*Store, error) {
	s := new(Store)
	s.purges.tags = make(map[string]marks)
	s.purges.lines = make(map[uint64]marks)
	s.leaving = make(map[uint64]int)
	s.seed = maphash.MakeSeed()
	s.entries.begin()
	s.number = stores.Add(1)
	s.table = newTable(o.Memory, s.addDisks(o))
	s.memory.begin(s, o.Memory)
	s.memory.used = s.fixed()
	s.set(o)
	if err := s.openDisks(o); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return s, nil
}

// stores counts the stores of the process.
var stores atomic.Uint32

// Key is what an answer is kept by: bytes of the caller's choice, and their hash, which costs more
// than the rest of a lookup. It is one store's.
type Key struct {
	text []byte
	hash uint64
}

// Key returns the key of these bytes, which nobody changes as long as the key is used.
func (s *Store) Key(text []byte) Key { return s.KeyOf(text, s.Line(firstLine(text))) }

// Line is the hash of the first line of a key that is being made.
type Line struct {
	n    int // bytes
	hash uint64
}

// Line returns the hash of what is going to be the first line of a key, and has the processor fetch
// the line's place in the index, which it seldom has at hand: the rest of the key can be made
// meanwhile.
func (s *Store) Line(line []byte) Line {
	l := Line{len(line), s.sum(line)}
	s.table.fetch(l.hash)
	return l
}

// KeyOf is Key where Line has got what the text begins with. If that has turned out to be no first
// line, KeyOf is Key.
func (s *Store) KeyOf(text []byte, l Line) Key {
	if n := len(firstLine(text)); n != l.n {
		l = s.Line(text[:n])
	}
	return Key{text, joined(l.hash, s.sum(text[l.n:]))}
}

func firstLine(text []byte) []byte {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return text[:end]
	}
	return text
}

// Hash is a number that other keys are not likely to have, and that nobody can foretell.
func (k Key) Hash() uint64 { return k.hash }

// hash is that of a key.
func (s *Store) hash(key []byte) uint64 {
	n := len(firstLine(key))
	return joined(s.sum(key[:n]), s.sum(key[n:]))
}

// joined is the hash of a key, of the sums of its first line and of the rest. Its lineBits lowest
// bits are those of the first line.
func joined(line, rest uint64) uint64 { return line ^ rest&^(1<<lineBits-1) }

// sum is a hash that nobody else can foretell: the same after a restart, where there is a folder.
// It is no variable, so that the key of a lookup can stay on the stack.
func (s *Store) sum(key []byte) uint64 {
	if s.disk != nil {
		return siphash(s.disk.k0, s.disk.k1, key)
	}
	return maphash.Bytes(s.seed, key)
}

// Close leaves the folder to others, and waits for that, some seconds at most. What is being sent
// is sent; nothing more is found or kept.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	for f := s.filling; f != nil; f = f.older {
		f.mu.Lock()
		f.kept = false
		f.schedule()
		f.wakeWriter()
		f.mu.Unlock()
	}
	s.table.clear()
	s.mu.Unlock()
	s.closeDisks()
}

// Lookup is Find with a list of its own.
func (s *Store) Lookup(t *loop.Thread, key Key) []*Object { return s.Find(t, key, nil) }

// Find appends the variants that are kept for a key to list, the newest first. It allocates nothing
// if there is room in list. The caller calls Hit of the one that it uses. t waits only where heads
// have to be read from disk; with nil in its place, they are passed over.
func (s *Store) Find(t *loop.Thread, key Key, list []*Object) []*Object {
	text := unsafe.String(unsafe.SliceData(key.text), len(key.text))
	if s.table.cold[s.table.near(key.hash)/shared].Load() > 0 && t != nil {
		s.warm(t, key.hash, text)
	}
	n := len(list)
	list = s.table.find(&s.memory.slots, key.hash, text, list)
	for _, o := range list[n:] {
		if o.seen.Load() < s.purged.Load() {
			s.examine(key.hash, text)
			list = s.table.find(&s.memory.slots, key.hash, text, list[:n])
			break
		}
	}
	if s.memory.left.many.Load() {
		s.apart(list[n:])
	}
	return list
}

// objects returns the variants of a key, the newest first. The caller holds s.mu.
func (s *Store) objects(hash uint64, key string) []*Object {
	return s.table.find(&s.memory.slots, hash, key, nil)
}

// current returns the record that an object has now, or nil if it is not kept any more. The caller
// holds s.mu.
func (s *Store) current(o *Object) *Object {
	if o.store != s.number {
		return nil
	}
	if o.where() != nowhere {
		return o
	}
	var space [4]*Object
	for _, x := range s.table.find(&s.memory.slots, o.hash, o.key(), space[:0]) {
		if x.id == o.id {
			return x
		}
	}
	return nil
}

// Remove removes one object, such as a variant that its origin has disowned.
func (s *Store) Remove(o *Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o = s.current(o); o != nil {
		s.discard(o)
	}
}

// discard forgets an object, and its file. The caller holds s.mu.
func (s *Store) discard(o *Object) {
	file := o.file()
	s.unlist(o)
	s.forget(file)
}

// evicted forgets an object that memory has no room for; its file stays. The caller holds s.mu.
func (s *Store) evicted(o *Object) {
	file := o.file()
	s.unlist(o)
	if file != nil {
		s.unload(file)
		s.unloaded++
	}
}

// unlist takes an object out of the table and of memory, if it is there.
func (s *Store) unlist(o *Object) {
	if o.where() != nowhere {
		s.table.remove(&s.memory.slots, o)
		s.memory.remove(o)
	}
}

// keep makes an object of an answer, in the place of one of the same variant. It returns nil if
// there is no room for it. The caller holds s.mu.
func (s *Store) keep(a *answer) *Object {
	s.ids++
	a.id = s.ids
	s.fills++
	before := s.replaced(a)
	where, hits := uint32(inSmall), uint32(0)
	switch {
	case before != nil:
		where, hits = before.where(), before.hits()
	case s.memory.ghosts.take(a.hash, s.memory.small.n+s.memory.main.n):
		where = inMain
	}
	return s.put(a, before, where, hits)
}

// replaced returns the object in whose place an answer is kept, nil if there is none, and makes
// room for one more variant. The caller holds s.mu.
func (s *Store) replaced(a *answer) (before *Object) {
	var space [4]*Object
	n := 1
	for _, x := range s.table.find(&s.memory.slots, a.hash, a.key, space[:0]) {
		switch {
		case x.Vary() == a.head.Vary:
			before = x
		case n == MaxVariants:
			s.discard(x)
		default:
			n++
		}
	}
	return before
}

// put makes an object of an answer, and puts it in the place of another one, nil: of none. It
// returns nil if there is no room for it.
func (s *Store) put(a *answer, before *Object, where, hits uint32) *Object {
	m := &s.memory
	if m.short() { // all are being sent
		return nil
	}
	o := m.make(a, where)
	m.enter(o, where, hits)
	if a.file != nil {
		a.file.object = o
		s.judgeCold(a.file.entry)
	}
	if a.forms != nil {
		o.takeForms(a.forms)
	}
	if before == nil {
		s.table.add(&m.slots, o)
	} else {
		s.table.replace(&m.slots, before, o)
		file := before.file()
		m.remove(before)
		if file != nil && file != a.file {
			s.forget(file)
		}
	}
	m.shrink()
	return s.current(o)
}

// change puts an object with another head in the place of one that is kept. It returns nil if old
// is not kept any more. The caller holds s.mu.
func (s *Store) change(old *Object, h Head, seen uint64, staleAt uint32) *Object {
	a := &answer{key: old.key(), hash: old.hash, head: h, body: old.content(), seen: seen,
		staleAt: staleAt}
	if x := old.x; x != nil {
		a.long, a.file, a.all = x.long, x.file, x.all
	}
	s.ids++
	a.id = s.ids
	if f := a.file; f != nil {
		if f.in.where() == nowhere {
			return nil
		}
		if f.object == nil { // old's head was evicted meanwhile, and its file was not
			return s.put(a, nil, inSmall, 0)
		}
		old = f.object
	}
	if old = s.current(old); old == nil {
		return nil
	}
	a.forms = old
	return s.put(a, old, old.where(), old.hits())
}

// Stats are counts since the store was made, and what it holds now.
type Stats struct {
	MemoryObjects, MemoryBytes int64 // bytes of fills, too; heads of objects on disk, too
	DiskObjects, DiskBytes     int64

	Filling int64  // fills just now
	Fills   uint64 // that were kept
	Dropped uint64 // that were not, for whatever reason
	Evicted uint64
	Purged  uint64
	Damaged uint64 // files that were damaged
	Failed  uint64 // writes and reads of the disk, late ones too
}

// Stats returns the counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := Stats{
		MemoryObjects: s.memory.small.n + s.memory.main.n,
		MemoryBytes:   s.memory.used,
		Filling:       s.fillers,
		Fills:         s.fills,
		Dropped:       s.dropped.Load(),
		Evicted:       s.memory.evicted - s.unloaded,
		Purged:        s.gone.Load(),
		Damaged:       s.damaged.Load(),
		Failed:        s.failed.Load(),
	}
	s.countDisks(&n)
	return n
}

// noteOf returns Meta and Reason of a head as text.
func (s *Store) noteOf(h *Head) string {
	if note := s.options.Load().Note; note != nil {
		return note(h)
	}
	return ""
}

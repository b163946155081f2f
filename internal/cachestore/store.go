package cachestore

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/loop"
)

// Options are those of a Store. Sizes are in bytes and count all that an object takes.
type Options struct {
	Memory    int64 // for what is in memory, fills included; what is not kept passes beside
	MaxObject int64 // the longest body that is kept; 0: an eighth of the place where it is kept

	Folder string // for what is on disk; empty: there is no disk
	Disk   int64  // for what is in that folder
	Split  int64  // bodies longer than that are on disk, if there is a folder
	Wait   bool   // while another process has the folder, do without it, and take it afterwards

	// Parsed of a head that goes to disk as text, and of one that comes from there; any goroutine
	// calls them. nil: there is none.
	Note   func(*Head) string
	Parse  func(h *Head, note string)
	Logger *slog.Logger // nil: slog.Default()
}

// MaxVariants bounds the variants of one resource: the one that was kept the longest time ago makes
// way.
const MaxVariants = 32

// Store keeps objects.
type Store struct {
	seed    maphash.Seed
	table   *table
	options atomic.Pointer[Options]
	purged  atomic.Uint64 // the last purge that concerns objects which are found, see examine
	disk    *disk         // nil: there is none

	dropped, damaged, failed, gone atomic.Uint64 // see Stats

	mu      sync.Mutex // held briefly; below it is a Fill's
	closed  bool
	memory  place[Object, *Object] // objects; of those on disk, the heads
	files   place[file, *file]
	purges  purges
	filling *Fill // the newest of those that come; see Fill.older
	fillers int64 // how many those are

	mores []*more // that no entry has

	tight     atomic.Bool  // half of the memory is reserved
	sending   atomic.Int64 // bytes of long bodies in memory that are sent just now
	lingering int64        // bytes of memory that readers of finished fills have

	fills    uint64
	unloaded uint64 // heads that were evicted, not objects
	scanning bool   // files are looked for
	partly   bool   // and not all were found, as the disk has failed

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
	s.memory.evict, s.files.evict = s.evicted, s.fileEvicted
	s.memory.busy, s.files.busy = (*Object).busy, s.fileBusy
	if o.Folder == "" {
		o.Disk = 0
	}
	s.table = newTable(o.Memory, o.Disk)
	s.memory.ghosts, s.files.ghosts = newGhosts(o.Memory), newGhosts(o.Disk/16)
	s.memory.used = s.table.size() + int64(8*(len(s.memory.ghosts.slots)+len(s.files.ghosts.slots)))
	s.set(o)
	if o.Folder == "" {
		return s, nil
	}
	if err := s.useFolder(o.Folder, o.Wait); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	return s, nil
}

// Key is what an answer is kept by: bytes of the caller's choice, and their hash, which costs more
// than the rest of a lookup. It is one store's.
type Key struct {
	text []byte
	hash uint64
}

// Key returns the key of these bytes, which nobody changes as long as the key is used.
func (s *Store) Key(text []byte) Key { return Key{text, s.hash(text)} }

// Clone returns the same key with bytes of its own.
func (k Key) Clone() Key { return Key{bytes.Clone(k.text), k.hash} }

// Hash is a number that other keys are not likely to have, and that nobody can foretell.
func (k Key) Hash() uint64 { return k.hash }

// hash is that of a key. Its lineBits lowest bits are those of the sum of the first line.
func (s *Store) hash(key []byte) uint64 {
	end := bytes.IndexByte(key, '\n')
	if end < 0 {
		end = len(key)
	}
	line := s.sum(key[:end])
	return (line^s.sum(key[end:]))&^(1<<lineBits-1) | line&(1<<lineBits-1)
}

// sum is a hash that nobody else can foretell: the same after a restart, where there is a folder. It
// is no variable, so that the key of a lookup can stay on the stack.
func (s *Store) sum(key []byte) uint64 {
	if s.disk != nil {
		return siphash(s.disk.k0, s.disk.k1, key)
	}
	return maphash.Bytes(s.seed, key)
}

// set takes options over.
func (s *Store) set(o Options) {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s.options.Store(&o)
	s.memory.limit = max(o.Memory, leastMemory)
	s.files.limit = o.Disk
	s.memory.shrink()
	s.files.shrink()
}

// leastMemory is what a store takes at least, in bytes, for its tables and for fills.
const leastMemory = 1 << 20

// Configure changes all options but Folder and Wait. What is too much then is evicted.
func (s *Store) Configure(o Options) {
	old := s.options.Load()
	o.Folder, o.Wait, o.Logger = old.Folder, old.Wait, cmp.Or(o.Logger, old.Logger)
	if o.Folder == "" {
		o.Disk = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(o)
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
	for i := range s.table.buckets {
		s.table.buckets[i].Store(nil)
	}
	s.mu.Unlock()
	if s.disk != nil {
		s.disk.close()
	}
}

// Lookup returns the variants that are kept for a key, the newest first. It allocates nothing. The
// caller must not change the slice, and calls Hit of the one that it uses. t waits only where heads
// have to be read from disk; with nil in its place, they are passed over.
func (s *Store) Lookup(t *loop.Thread, key Key) []*Object {
	e := s.table.find(key.hash, key.text)
	if e == nil {
		return nil
	}
	if m := e.more.Load(); m != nil && m.cold.Load() && t != nil {
		s.warm(t, e)
		if e = s.table.find(key.hash, key.text); e == nil {
			return nil
		}
	}
	list := e.list()
	for _, o := range list {
		if o.seen.Load() < s.purged.Load() {
			s.examine(e)
			return e.list()
		}
	}
	return list
}

// Remove removes one object, such as a variant that its origin has disowned.
func (s *Store) Remove(o *Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.discard(o)
}

// discard forgets an object, and its file. The caller holds s.mu.
func (s *Store) discard(o *Object) {
	if !s.memory.remove(o) {
		return
	}
	s.unlist(o)
	s.forget(o.file)
}

// evicted forgets an object that memory has no room for; its file stays. The caller holds s.mu.
func (s *Store) evicted(o *Object) {
	if o.file != nil {
		s.unload(o.file)
		s.unloaded++
	}
	s.unlist(o)
}

func (s *Store) unlist(o *Object) {
	o.entry.without(o)
	s.tidy(o.entry)
}

// tidy takes an entry out of the table if nothing is left of it. The caller holds s.mu.
func (s *Store) tidy(e *entry) {
	if e.empty() {
		s.table.remove(e)
	}
}

// keep puts an object into its entry, in the place of one of the same variant. The caller holds
// s.mu.
func (s *Store) keep(o *Object) {
	switch e := s.table.find(o.entry.hash, []byte(o.entry.key)); {
	case e == nil:
		s.table.add(o.entry)
	case e != o.entry: // o's was removed meanwhile
		o.entry = e
	}
	list := make([]*Object, 1, len(o.entry.list())+1)
	list[0] = o
	var before *Object
	var out []*Object
	for _, x := range o.entry.list() {
		switch {
		case x.head.Vary == o.head.Vary:
			before = x
		case len(list) == MaxVariants:
			out = append(out, x)
		default:
			list = append(list, x)
		}
	}
	o.entry.set(list)
	for _, x := range out {
		s.memory.remove(x)
		s.forget(x.file)
	}
	o.in.cost = o.cost()
	s.fills++
	if before == nil {
		s.memory.add(o)
		return
	}
	s.memory.replace(before, o)
	s.forget(before.file)
}

// change puts an object with another head in the place of one that is kept. It returns false if old
// is not kept any more. The caller holds s.mu.
func (s *Store) change(old, o *Object) bool {
	if f := old.file; f != nil && f.in.where() != nowhere {
		if f.object == nil { // old's head was evicted meanwhile, and its file was not
			o.entry, f.object = f.entry, o
			o.entry.set(append(slices.Clone(o.entry.list()), o))
			o.in.cost = o.cost()
			s.memory.add(o)
			return true
		}
		old = f.object
		o.entry = f.entry
	}
	i := slices.Index(old.entry.list(), old)
	if i < 0 || old.in.where() == nowhere {
		return false
	}
	list := slices.Clone(old.entry.list())
	list[i] = o
	o.entry.set(list)
	o.in.cost = o.cost()
	s.memory.replace(old, o)
	return true
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
	return Stats{
		MemoryObjects: s.memory.small.n + s.memory.main.n,
		MemoryBytes:   s.memory.used,
		DiskObjects:   s.files.small.n + s.files.main.n,
		DiskBytes:     s.files.used,
		Filling:       s.fillers,
		Fills:         s.fills,
		Dropped:       s.dropped.Load(),
		Evicted:       s.memory.evicted - s.unloaded + s.files.evicted,
		Purged:        s.gone.Load(),
		Damaged:       s.damaged.Load(),
		Failed:        s.failed.Load(),
	}
}

// noteOf returns Parsed of a head as text.
func (s *Store) noteOf(h *Head) string {
	if note := s.options.Load().Note; note != nil {
		return note(h)
	}
	return ""
}

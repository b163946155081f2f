package cache

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/content/cachestore"
)

// Options are those of a Store. Sizes are in bytes.
type Options struct {
	Memory    int64  // for what is in memory
	Folder    string // for large answers, which are there after a restart; empty: all is in memory
	Disk      int64  // for what is in that folder
	MaxObject int64  // the largest body that is kept; 0: an eighth of the place for it

	Logger *slog.Logger // nil: slog.Default()
}

// splitAt is how long bodies are that are on disk, where there is a folder.
const splitAt = 64 << 10

// storeOptions returns the options of the cachestore.
func (s *Store) storeOptions(o Options) cachestore.Options {
	return cachestore.Options{Memory: o.Memory, MaxObject: o.MaxObject, Folder: o.Folder, Disk: o.Disk,
		Split: splitAt, Wait: true, Note: s.note, Parse: s.parse, Logger: o.Logger}
}

// Descriptors is how many a store with a folder holds between requests, at most.
const Descriptors = cachestore.Descriptors

// CheckFolder tells why a folder cannot be the one of a store; nil: it can, or only the attempt
// will tell.
func CheckFolder(folder string) error { return cachestore.CheckFolder(folder) }

// Store is what layers keep answers in: any number of layers, on all loops. As long as it is not
// open, layers pass all requests on. Any goroutine may call its methods.
type Store struct {
	at         atomic.Pointer[opened]
	missed     atomic.Bool // see Missed
	ever       atomic.Bool // it was open
	noted      atomic.Bool // that it was not, and has requests
	hitForMiss hitForMiss
	share      atomic.Pointer[func(text []byte, lasting bool)] // see Share
	refreshes  refreshes                                       // on their way, beside requests
	// of *refreshes, those of a site, by its name
	sites sync.Map
	clock clock
	aging aging
}

// opened is a Store's place.
type opened struct {
	*cachestore.Store
	folder string
}

// NewStore makes a store that is not open.
func NewStore() *Store {
	return &Store{clock: clock{began: time.Now(), number: rand.Int64()}}
}

// Open makes an open store.
func Open(o Options) (*Store, error) {
	s := NewStore()
	return s, s.Configure(o)
}

// Configure opens the store or, if it is open, changes its options; what is kept stays as far as
// there is room. With another folder it begins anew, and what that folder has is purged (see
// Missed). The error is that of the folder; then the store is as it was. One goroutine at a time
// calls Configure and Close.
func (s *Store) Configure(o Options) error {
	was := s.at.Load()
	if was != nil && was.folder == o.Folder {
		was.Store.Configure(s.storeOptions(o))
		return nil
	}
	if was != nil || o.Folder == "" {
		s.Missed()
	}
	at, err := cachestore.New(s.storeOptions(o))
	if err != nil {
		return err
	}
	if o.Folder != "" && s.missed.Load() {
		if err := at.Purge(cachestore.Purge{All: true}); err != nil {
			at.Close()
			return err
		}
		s.missed.Store(false)
	}
	s.at.Store(&opened{at, o.Folder})
	s.ever.Store(true)
	if was != nil {
		was.Store.Close()
	}
	return nil
}

// Missed says that requests were served that may have changed what a folder has, and were not seen
// here, or while there was no folder. So what is in a folder is purged when it is opened.
func (s *Store) Missed() { s.missed.Store(true) }

// Close closes the store.
func (s *Store) Close() {
	if was := s.at.Swap(nil); was != nil {
		was.Store.Close()
	}
}

// now returns the time by the store's clock.
func (s *Store) now(req *conn.Request) time.Time { return s.clock.at(req.Thread.Loop().Time()) }

// refreshes counts those of a store, or of a site.
type refreshes struct{ atomic.Int32 }

// enter counts one more of a site, and of all, unless there are too many.
func (r *refreshes) enter(all *refreshes) bool {
	own, n := r.Add(1), all.Add(1)
	if n <= maxRefreshes/4*3 || n <= maxRefreshes && own <= maxRefreshes/4 {
		return true
	}
	r.leave(all)
	return false
}

func (r *refreshes) leave(all *refreshes) {
	r.Add(-1)
	all.Add(-1)
}

// date returns the time by the machine's clock, as dates have it.
func (s *Store) date(req *conn.Request) time.Time {
	return s.clock.machine(req.Thread.Loop().Time())
}

// hitForMiss remembers keys whose answers were not kept, by their hashes, as Varnish does: until
// the mark is over, requests for them do not wait for each other. A mark that is lost, or another
// key's, costs or spares a wait, no more.
type hitForMiss struct {
	slots  [1 << 12]atomic.Uint64 // 40 bits of the hash, and the end in Unix seconds, modulo 1<<24
	probed [1 << 12]atomic.Uint32 // Unix seconds, modulo 1<<32, see probe
}

// Marks last hitForMissLong if the answer says that it is for nobody else, and else
// hitForMissShort: an error may be over in a moment.
const (
	hitForMissLong  = 30 * time.Second
	hitForMissShort = time.Second
)

const secondBits = 24

func (p *hitForMiss) slot(key uint64) (*atomic.Uint64, uint64) {
	return &p.slots[p.index(key)], key >> secondBits << secondBits
}

// index is that of a key's slot. The lowest bits alone are those of its URL.
func (p *hitForMiss) index(key uint64) uint64 {
	return (key ^ key>>secondBits) % uint64(len(p.slots))
}

func (p *hitForMiss) add(key uint64, now time.Time, d time.Duration) {
	slot, tag := p.slot(key)
	p.probed[p.index(key)].Store(uint32(now.Unix()))
	slot.Store(tag | uint64(now.Add(d).Unix())&(1<<secondBits-1))
}

// probe reports whether a request for a marked key should look whether its answer may be kept after
// all, and nobody waits for that: once in a second. A page may be for one client only where that
// has a session, or gets one, and such clients come all the time.
func (p *hitForMiss) probe(key uint64, now time.Time) bool {
	at, second := &p.probed[p.index(key)], uint32(now.Unix())
	last := at.Load()
	return last != second && at.CompareAndSwap(last, second)
}

func (p *hitForMiss) remove(key uint64) {
	slot, tag := p.slot(key)
	if v := slot.Load(); v>>secondBits<<secondBits == tag {
		slot.CompareAndSwap(v, 0)
	}
}

func (p *hitForMiss) has(key uint64, now time.Time) bool {
	slot, tag := p.slot(key)
	v := slot.Load()
	if v == 0 || v>>secondBits<<secondBits != tag {
		return false
	}
	left := (v - uint64(now.Unix())) & (1<<secondBits - 1)
	return left > 0 && left <= uint64(hitForMissLong/time.Second)
}

// Stats are counts since the store was opened, and what it holds now.
type Stats struct {
	MemoryObjects, MemoryBytes int64
	DiskObjects, DiskBytes     int64

	Filling int64  // answers on their way
	Fills   uint64 // that were kept
	Dropped uint64 // that were not
	Evicted uint64
	Purged  uint64
	Damaged uint64 // files
	Failed  uint64 // reads and writes of the disk
}

// Stats returns the counts; ok is false if the store is not open.
func (s *Store) Stats() (n Stats, ok bool) {
	at := s.at.Load()
	if at == nil {
		return n, false
	}
	return Stats(at.Stats()), true
}

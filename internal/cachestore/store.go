package cachestore

import (
	"log/slog"

	"github.com/lwango/lwango/loop"
)

// Options are those of a Store. Sizes are in bytes and count all that an object takes.
type Options struct {
	Memory    int64 // for what is in memory, fills included
	MaxObject int64 // the longest body that is kept; 0: an eighth of the place where it is kept

	Folder string // for what is on disk; empty: there is no disk
	Disk   int64  // for what is in that folder
	Split  int64  // bodies longer than that are on disk, if there is a folder
	Wait   bool   // while another process has the folder, do without it, and take it afterwards

	Parse  func(*Head) // sets Parsed of a head that was read from disk, on any goroutine
	Logger *slog.Logger
}

// MaxVariants bounds the variants of one resource: the one that was kept the longest time ago makes
// way.
const MaxVariants = 32

// Store keeps objects.
type Store struct{}

// New makes a store. It fails if the folder cannot be used, and with ErrLocked if another process
// uses it. What the folder has is found bit by bit; the store is ready at once.
func New(o Options) (*Store, error) { panic("soon") }

// Configure changes all options but Folder. What is too much then is evicted.
func (s *Store) Configure(o Options) { panic("soon") }

// Close leaves the folder to others. Objects that are being sent are sent; nothing more is found or
// kept.
func (s *Store) Close() { panic("soon") }

// Lookup returns the variants that are kept for a key, the newest first. It allocates nothing. The
// caller must not change the slice, and calls Hit of the one that it uses. t waits only where heads
// have to be read from disk.
func (s *Store) Lookup(t *loop.Thread, key []byte) []*Object { panic("soon") }

// Freshen replaces a kept object by one with another head and the same body, and returns that. It is
// nil if old is not kept any more.
func (s *Store) Freshen(old *Object, h Head) *Object { panic("soon") }

// Remove removes one object, such as a variant that its origin has disowned.
func (s *Store) Remove(o *Object) { panic("soon") }

// Stats are counts since the store was made, and what it holds now.
type Stats struct {
	MemoryObjects, MemoryBytes int64 // of bytes, those of fills, too
	DiskObjects, DiskBytes     int64

	Filling  int64  // fills just now
	Fills    uint64 // that were kept
	Dropped  uint64 // that were not: aborted, too long, of a wrong length, no room
	Evicted  uint64
	Purged   uint64
	Damaged  uint64 // files that were damaged
	DiskFail uint64 // failed or late writes and reads
}

// Stats returns the counts.
func (s *Store) Stats() Stats { panic("soon") }

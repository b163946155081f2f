package cachestore

import (
	"cmp"
	"log/slog"
	"sync/atomic"
)

// This file is all that knows which places a store has for bodies: the options say how large they
// are, and a body goes where longest and diskFor say. Whatever has a file, a fill or an object,
// knows the disk of the file.

// Options are those of a Store. Sizes are in bytes and count all that an object takes.
type Options struct {
	Memory    int64 // for what is in memory, fills included; what is not kept passes beside
	MaxObject int64 // the longest body that is kept; 0: an eighth of the place where it is kept

	Folder string // for what is on disk; empty: there is no disk
	Disk   int64  // for what is in that folder
	Split  int64  // bodies longer than that are on disk, if there is a folder
	Wait   bool   // while another process has the folder, do without it, and take it afterwards

	// Meta and Reason of a head that goes to disk as text, and of one that comes from there; any
	// goroutine calls them. nil: there are none.
	Note   func(*Head) string
	Parse  func(h *Head, note string)
	Logger *slog.Logger // nil: slog.Default()
}

// storage has the places where the objects of a Store are.
type storage struct {
	options atomic.Pointer[Options]
	disk    *disk  // of bodies; of the seed of the hash and the purges, too; nil: there is none
	memory  memory // objects; of those on disk, the heads; guarded by Store.mu
}

// fixed is what the store takes of memory when it is empty, in bytes.
func (s *Store) fixed() int64 {
	return s.table.size() + s.memory.bytes() + s.memory.ghosts.size() + s.entries.size() +
		s.diskMemory()
}

// set takes options over.
func (s *Store) set(o Options) {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	s.options.Store(&o)
	// The tables stay as large as they were made, also where the memory is less now.
	s.memory.limit = max(o.Memory, leastMemory, s.fixed()+leastMemory/2)
	s.memory.sift(len(s.memory.left.list)) // of less memory, a quarter is less
	s.memory.shrink()
	s.limitDisks(o)
}

// leastMemory is what a store takes at least, in bytes, for its tables and for fills.
const leastMemory = 1 << 20

// Configure changes all options but Folder and Wait. What is too much then is evicted.
func (s *Store) Configure(o Options) {
	old := s.options.Load()
	o.Folder, o.Wait, o.Logger = old.Folder, old.Wait, cmp.Or(o.Logger, old.Logger)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(o)
}

// addDisks makes the disks, which are not open yet, and returns how many bytes they have.
func (s *Store) addDisks(o Options) (bytes int64) {
	if o.Folder == "" {
		return 0
	}
	s.disk = newDisk(s, o.Folder, o.Disk)
	return o.Disk
}

// openDisks opens the folders of the disks.
func (s *Store) openDisks(o Options) error {
	if s.disk == nil {
		return nil
	}
	return s.disk.open(o.Wait)
}

// limitDisks takes over how much there may be on the disks. The caller holds s.mu.
func (s *Store) limitDisks(o Options) {
	if s.disk != nil {
		s.disk.files.limit = o.Disk
		s.disk.files.shrink()
	}
}

// closeDisks leaves the folders to others.
func (s *Store) closeDisks() {
	if s.disk != nil {
		s.disk.close()
	}
}

// longest returns how long a body is at most that is kept, and one that stays in memory: -1 if all
// do.
func (s *Store) longest() (most, split int64) {
	o := s.options.Load()
	if d := s.disk; d != nil && d.ready.Load() {
		return cmp.Or(o.MaxObject, o.Disk/8), o.Split
	}
	return cmp.Or(o.MaxObject, o.Memory/8), -1
}

// diskFor chooses the disk for a body; nil: there is none that can be used.
func (s *Store) diskFor() *disk {
	if d := s.disk; d != nil && d.usable() {
		return d
	}
	return nil
}

// diskMemory is what the disks take of memory when they are empty, in bytes.
func (s *Store) diskMemory() int64 {
	if s.disk == nil {
		return 0
	}
	return s.disk.files.ghosts.size()
}

// countDisks adds what the disks hold. The caller holds s.mu.
func (s *Store) countDisks(n *Stats) {
	if s.disk != nil {
		p := &s.disk.files
		n.DiskObjects += s.diskFiles()
		n.DiskBytes += p.used
		n.Evicted += p.evicted
	}
}

// diskFiles returns how many objects are on the disks. The caller holds s.mu.
func (s *Store) diskFiles() int64 {
	if s.disk == nil {
		return 0
	}
	return s.disk.files.small.n + s.disk.files.main.n
}

// disksReady reports whether the folders of all disks are this process's.
func (s *Store) disksReady() bool { return s.disk == nil || s.disk.ready.Load() }

// scanning reports whether files are looked for. The caller holds s.mu.
func (s *Store) scanning() bool { return s.disk != nil && s.disk.scanning }

// partly reports whether some files were not found, as a disk has failed. The caller holds s.mu.
func (s *Store) partly() bool { return s.disk != nil && s.disk.partly }

package cachestore

import "cmp"

// This file is all that knows which disks a store has: it chooses the disk of a body, and applies
// the options to the disks. A fill and a file know their disk. The seed of the hash and the purges
// are those of Store.disk.

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

package cachestore

import (
	"errors"
	"time"
)

// Purge says what is purged: all that one of these names.
type Purge struct {
	Prefixes [][]byte // keys that begin with one of these
	Lines    [][]byte // keys with one of these as their first line, or their first two
	Tags     []string // objects with one of these tags
	All      bool

	// with Prefixes and Tags: only of keys that have this as their second line; nil: of all
	Owner []byte

	Soft bool // they become stale instead of gone
}

// Purge purges what is kept and what is on its way: nothing that was begun before is found
// afterwards, also after a restart. Memory is given back a little later. With a folder, the call
// waits until the disk has the purge, so threads call it off their loops; but it does not wait for
// long. The error is the disk's: then a restart may bring back what was purged.
func (s *Store) Purge(p Purge) error { return s.Mark(p).Wait() }

// Mark is the part of a Purge, or of several, that waits for no disk: nothing of them is found any
// more.
func (s *Store) Mark(all ...Purge) Marked {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []mark
	sweep := false
	for _, p := range all {
		list = append(list, s.marksOf(p)...)
		if p.All || len(p.Prefixes)+len(p.Tags) > 0 { // of lines little goes, and they come often
			s.purges.wanted, sweep = s.purges.now, true
		}
	}
	for _, m := range list {
		s.purges.add(m)
	}
	s.purged.Store(s.purges.now)
	if sweep || s.crowded() {
		s.sweep()
	}
	if s.disk == nil || len(list) == 0 {
		return Marked{}
	}
	return Marked{s, s.disk.note(list)}
}

// Marked is a purge that the disk may not have yet.
type Marked struct {
	store   *Store
	written *marksBatch // nil: there is nothing to wait for
}

// Wait waits until the disk has the purge. The error is Purge's.
func (m Marked) Wait() error {
	if m.written == nil {
		return nil
	}
	select {
	case <-m.written.done:
		return m.written.err
	case <-time.After(slowDisk):
		m.store.disk.failed("write", errLate)
		return errLate
	}
}

// errLate is the error of a Purge that the disk does not have yet.
var errLate = errors.New("the disk takes too long to write down a purge")

// examine has the purges take effect on the objects of a key.
func (s *Store) examine(hash uint64, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.examineLocked(hash, key)
}

func (s *Store) examineLocked(hash uint64, key string) {
	var space [4]*Object
	for _, o := range s.table.find(&s.memory.slots, hash, key, space[:0]) {
		since := o.seen.Load()
		if since >= s.purges.now {
			continue
		}
		hard, soft := s.judge(since, key, o.tags())
		if hard {
			s.gone.Add(1)
			s.discard(o)
			continue
		}
		if soft > 0 {
			o.staleAt.CompareAndSwap(0, soft)
		}
		o.seen.Store(s.purges.now)
	}
	if e := s.entryOf(hash, key); e != nil {
		s.examineFiles(e)
	}
}

// examineFiles has purges of all take effect on those files of an entry whose heads were not read.
func (s *Store) examineFiles(e *entry) {
	for _, f := range append([]*file(nil), e.files...) {
		if f.object == nil && s.purges.gone(f.id) {
			s.gone.Add(1)
			s.lose(f)
		}
	}
}

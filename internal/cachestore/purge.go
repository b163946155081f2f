package cachestore

import (
	"errors"
	"time"
)

// Purge says what is purged: a Key, or all that one of the others names.
type Purge struct {
	Key      []byte   // this key
	Prefixes [][]byte // keys that begin with one of these
	Lines    [][]byte // keys with one of these as their first line, or their first two
	Tags     []string // objects with one of these tags
	All      bool

	Owner []byte // with Prefixes and Tags: only of keys that have this as their second line; nil: of all

	Soft bool // they become stale instead of gone
}

// Purge purges what is kept and what is on its way: nothing that was begun before is found
// afterwards, also after a restart. Memory is given back a little later. found reports whether there
// was something under a Key; it is true for the other kinds. With a folder, the call waits until the
// disk has the purge, so threads call it off their loops; but it does not wait for long. The error is
// the disk's: then a restart may bring back what was purged.
func (s *Store) Purge(p Purge) (found bool, err error) {
	var hash uint64
	if p.Key != nil {
		hash = s.hash(p.Key)
	}
	s.mu.Lock()
	list := s.marksOf(p, hash)
	if p.Key != nil {
		if s.disk != nil && (p.Soft || s.scanning || !s.disk.ready.Load()) {
			s.purges.add(list[0])
		}
		found = s.purgeKey(p.Key, hash, list[0].soft)
	} else {
		for _, m := range list {
			s.purges.add(m)
		}
		s.purged.Store(s.purges.now)
		// Of lines little goes, and they come often.
		if p.All || len(p.Prefixes)+len(p.Tags) > 0 || s.purges.many() {
			s.sweep()
		}
		found = true
	}
	if s.disk == nil {
		s.mu.Unlock()
		return found, nil
	}
	written := s.disk.note(list)
	s.mu.Unlock()
	select {
	case <-written.done:
		return found, written.err
	case <-time.After(slowDisk):
		s.disk.failed("write", errLate)
		return found, errLate
	}
}

// errLate is the error of a Purge that the disk does not have yet.
var errLate = errors.New("the disk takes too long to write down a purge")

// purgeKey purges what there is of a key, softly if there is a Unix time. The caller holds s.mu.
func (s *Store) purgeKey(key []byte, hash uint64, soft uint32) (found bool) {
	e := s.table.find(hash, key)
	if e == nil {
		return false
	}
	for _, o := range e.list() {
		found = true
		if soft > 0 {
			o.in.mark.CompareAndSwap(0, soft)
		} else {
			s.gone.Add(1)
			s.discard(o)
		}
	}
	m := e.more.Load()
	if m == nil {
		return found
	}
	for _, f := range m.fills {
		found = true
		f.spoil(soft)
	}
	for _, f := range append([]*file(nil), m.files...) {
		found = true
		if soft == 0 {
			s.gone.Add(1)
			s.lose(f)
		}
	}
	return found
}

// examine has the purges take effect on the objects of an entry.
func (s *Store) examine(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.examineLocked(e)
}

func (s *Store) examineLocked(e *entry) {
	for _, o := range e.list() {
		since := o.seen.Load()
		if since >= s.purges.now {
			continue
		}
		hard, soft := s.judge(since, e, o.head.Tags)
		if hard {
			s.gone.Add(1)
			s.discard(o)
			continue
		}
		if soft > 0 {
			o.in.mark.CompareAndSwap(0, soft)
		}
		o.seen.Store(s.purges.now)
	}
	if m := e.more.Load(); m != nil {
		for _, f := range append([]*file(nil), m.files...) {
			if f.object == nil && s.purges.gone(e.hash, f.id) {
				s.gone.Add(1)
				s.lose(f)
			}
		}
	}
}

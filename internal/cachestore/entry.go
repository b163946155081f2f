package cachestore

import (
	"unsafe"

	"github.com/lwango/lwango/internal/invariants"
)

// entry is a key of which answers come, or are on disk. What is kept in memory needs none. The holder
// of Store.mu uses it.
type entry struct {
	key  string // empty: not known yet, only files are there whose heads were not read
	hash uint64
	next *entry // of the same hash

	before, behind *entry // of the same line, see Store.lines

	fills  []*Fill  // that others may join
	few    [1]*Fill // fills begins as this one
	apart  []*Fill  // that others may not join, and that may be kept all the same
	files  []*file  // all that are on disk
	cold   bool     // the heads of some are not in memory; counted in table.cold
	load   *load    // of these heads; nil: it does not run
	listed bool     // it is in Store.entries
	users  int      // fills that have begun with it, and have not left it
	filed  bool     // it has, or had, files
	text   []byte   // of key, if it is the entry's own
}

// entryOf returns the entry of a key, or one of that hash whose key is not known yet, or nil. The
// caller holds s.mu.
func (s *Store) entryOf(hash uint64, key string) *entry {
	for e := s.entries[hash]; e != nil; e = e.next {
		if e.key == key || e.key == "" {
			return e
		}
	}
	return nil
}

// enter returns the entry of a key, made if need be. The caller holds s.mu.
func (s *Store) enter(hash uint64, key string) *entry {
	if e := s.entryOf(hash, key); e != nil {
		if e.key == "" {
			e.key = key
		}
		return e
	}
	return s.list(&entry{key: key, hash: hash})
}

// addEntry makes the entry of a key that has none, and copies the key. The caller holds s.mu.
func (s *Store) addEntry(hash uint64, key []byte) *entry {
	var e *entry
	if n := len(s.spare); n > 0 {
		e = s.spare[n-1]
		s.spare = s.spare[:n-1]
	} else {
		e = new(entry)
	}
	e.text = append(e.text[:0], key...)
	e.key, e.hash = unsafe.String(unsafe.SliceData(e.text), len(e.text)), hash
	return s.list(e)
}

// maxSpare is how many entries are kept to be used again, and usualKey how long their keys are at most.
const (
	maxSpare = 256
	usualKey = 512
)

// leave says that a fill does not use the entry any more, which is used again when none does, nor who
// reads the heads of files (walk, loadAll). The caller holds s.mu.
func (s *Store) leave(e *entry) {
	e.users--
	if e.users > 0 || e.listed || e.filed || len(s.spare) == maxSpare || cap(e.text) > usualKey || invariants.Enabled {
		return
	}
	*e = entry{text: e.text}
	s.spare = append(s.spare, e)
}

// list puts a new entry into the tables.
func (s *Store) list(e *entry) *entry {
	hash := e.hash
	e.next, e.listed, e.fills = s.entries[hash], true, e.few[:0]
	s.entries[hash] = e
	if e.behind = s.lines[lineOf(hash)]; e.behind != nil {
		e.behind.before = e
	}
	s.lines[lineOf(hash)] = e
	return e
}

// tidy forgets an entry that is empty. The caller holds s.mu.
func (s *Store) tidy(e *entry) {
	if !e.listed || len(e.fills)+len(e.apart)+len(e.files) > 0 || e.load != nil {
		return
	}
	s.setCold(e, false)
	if first := s.entries[e.hash]; first == e && e.next == nil {
		delete(s.entries, e.hash)
	} else if first == e {
		s.entries[e.hash] = e.next
	} else {
		for first.next != e {
			first = first.next
		}
		first.next = e.next
	}
	e.listed, e.next = false, nil
	switch {
	case e.before != nil:
		e.before.behind = e.behind
	case e.behind != nil:
		s.lines[lineOf(e.hash)] = e.behind
	default:
		delete(s.lines, lineOf(e.hash))
	}
	if e.behind != nil {
		e.behind.before = e.before
	}
	e.before, e.behind = nil, nil
}

// setCold notes whether an entry has files whose heads are not in memory. The caller holds s.mu.
func (s *Store) setCold(e *entry, cold bool) {
	if e.cold == cold {
		return
	}
	e.cold = cold
	n := &s.table.cold[s.table.near(e.hash)/shared]
	if cold {
		n.Add(1)
	} else {
		n.Add(^uint32(0))
	}
}

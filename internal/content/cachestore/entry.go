package cachestore

import (
	"unsafe"

	"github.com/lwango/lwango/internal/base/invariants"
)

// entry is a key of which answers come, or are on disk. What is kept in memory needs none. The
// holder of Store.mu uses it.
type entry struct {
	key  string // empty: not known yet, only files are there whose heads were not read
	hash uint64
	next *entry // see entries.byHash

	before, behind *entry // see entries.byLine

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

// entries finds entries, by their hashes or their lines. It grows by one list of each at a time, so
// that no insert has to move them all.
type entries struct {
	heads []entryHeads
	mask  uint64 // the least one that is len(heads)-1 or more and has all lower bits
	n     int    // entries
}

type entryHeads struct {
	byHash *entry // of those with the same indexes of their hashes; see entry.next
	byLine *entry // the newest one of those with the same indexes of their lines; see entry.behind
}

// leastHeads is with how many entries begins: more are seldom asked for at a time.
const leastHeads = 256

func (t *entries) begin() { t.heads, t.mask = make([]entryHeads, leastHeads), leastHeads-1 }

// size is what entries takes when it is empty, in bytes.
func (t *entries) size() int64 { return leastHeads * int64(unsafe.Sizeof(entryHeads{})) }

// index is that of the lists for a number.
func (t *entries) index(x uint64) uint64 {
	i := x & t.mask
	if i >= uint64(len(t.heads)) {
		i &= t.mask >> 1
	}
	return i
}

// ofHash returns what leads to the entries of a hash, and some others.
func (t *entries) ofHash(hash uint64) **entry { return &t.heads[t.index(hash>>lineBits)].byHash }

// ofLine returns what leads to the entries of a hash's line, and some others.
func (t *entries) ofLine(hash uint64) **entry { return &t.heads[t.index(lineOf(hash))].byLine }

// first returns an entry with a hash.
func (t *entries) first(hash uint64) *entry {
	e := *t.ofHash(hash)
	for e != nil && e.hash != hash {
		e = e.next
	}
	return e
}

// all returns all entries.
func (t *entries) all() []*entry {
	list := make([]*entry, 0, t.n)
	for i := range t.heads {
		for e := t.heads[i].byHash; e != nil; e = e.next {
			list = append(list, e)
		}
	}
	return list
}

// add adds an entry.
func (t *entries) add(e *entry) {
	if t.n++; t.n > len(t.heads) {
		t.grow()
	}
	t.link(e)
	t.linkLine(e)
}

func (t *entries) link(e *entry) {
	first := t.ofHash(e.hash)
	e.next, *first = *first, e
}

func (t *entries) linkLine(e *entry) {
	first := t.ofLine(e.hash)
	if e.before, e.behind = nil, *first; e.behind != nil {
		e.behind.before = e
	}
	*first = e
}

// grow makes one more list of each, and takes the entries for it out of those that had them.
func (t *entries) grow() {
	n := uint64(len(t.heads))
	if n > t.mask {
		t.mask = t.mask<<1 | 1
	}
	t.heads = append(t.heads, entryHeads{})
	from := &t.heads[n&(t.mask>>1)]
	had := *from
	*from = entryHeads{}
	for e := had.byHash; e != nil; {
		next := e.next
		t.link(e)
		e = next
	}
	for e := had.byLine; e != nil; {
		behind := e.behind
		t.linkLine(e)
		e = behind
	}
}

// remove takes an entry out.
func (t *entries) remove(e *entry) {
	t.n--
	at := t.ofHash(e.hash)
	for *at != e {
		at = &(*at).next
	}
	*at = e.next
	if e.before != nil {
		e.before.behind = e.behind
	} else {
		*t.ofLine(e.hash) = e.behind
	}
	if e.behind != nil {
		e.behind.before = e.before
	}
	e.next, e.before, e.behind = nil, nil, nil
}

// entryOf returns the entry of a key, or one of that hash whose key is not known yet, or nil. The
// caller holds s.mu.
func (s *Store) entryOf(hash uint64, key string) *entry {
	for e := *s.entries.ofHash(hash); e != nil; e = e.next {
		if e.hash == hash && (e.key == key || e.key == "") {
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

// maxSpare is how many entries are kept to be used again, and usualKey how long their keys are at
// most.
const (
	maxSpare = 256
	usualKey = 512
)

// leave says that a fill does not use the entry any more, which is used again when none does, nor
// who reads the heads of files (walk, loadAll). The caller holds s.mu.
func (s *Store) leave(e *entry) {
	e.users--
	if e.users > 0 || e.listed || e.filed || len(s.spare) == maxSpare || cap(e.text) > usualKey ||
		invariants.Enabled {
		return
	}
	*e = entry{text: e.text}
	s.spare = append(s.spare, e)
}

// list puts a new entry into the tables.
func (s *Store) list(e *entry) *entry {
	e.listed, e.fills = true, e.few[:0]
	s.entries.add(e)
	return e
}

// tidy forgets an entry that is empty. The caller holds s.mu.
func (s *Store) tidy(e *entry) {
	if !e.listed || len(e.fills)+len(e.apart)+len(e.files) > 0 || e.load != nil {
		return
	}
	s.setCold(e, false)
	s.entries.remove(e)
	e.listed = false
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

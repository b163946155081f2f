package cachestore

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// table finds entries by their keys, and those of a line. Lookups take no lock; the holder of
// Store.mu changes it. It has a fixed number of buckets, so that no insert has to move a million
// entries on a loop.
//
// All keys with the same first line have one bucket, that of the line, so whoever looks for them
// looks there (see hash). But a client may send fields that make ever new keys of one line. So a
// bucket takes maxChain entries. What comes then stands in the bucket of its whole key, and is
// counted as strayed from its own: lookups look there as well, as long as there are such.
type table struct {
	buckets []atomic.Pointer[entry]
	strayed []atomic.Uint32 // from shared buckets in a row
}

// maxChain is how many entries a bucket takes, beside those that have strayed to it.
const maxChain = 32

// shared is how many buckets have one count of what has strayed: there is next to nothing to count.
const shared = 8

// entry is a resource: a key and what there is of it. It is in the table while there is something.
type entry struct {
	key  string // empty: not known yet, only files are there whose heads were not read
	hash uint64
	next atomic.Pointer[entry] // in the bucket; a removed entry keeps it, for lookups on their way

	objects atomic.Pointer[variants]
	more    atomic.Pointer[more]
}

// variants is what a Lookup returns: the first n of at, of which there are as many as are needed. It
// does not change; another one takes its place.
type variants struct {
	n  int
	at [1]*Object
}

// several is variants of more than one.
type several struct {
	n  int
	at [MaxVariants]*Object
}

// more is what few entries have. The holder of Store.mu changes it.
type more struct {
	fills []*Fill  // that others may join
	few   [1]*Fill // fills begins as this one
	apart []*Fill  // that others may not join, and that may be kept all the same
	files []*file  // all that are on disk
	cold  atomic.Bool
	load  *load // of the cold ones' heads; nil: it does not run
}

// perBucket is for how many bytes of memory there is a bucket, 8 bytes.
const perBucket = 2 << 10

func newTable(memory, disk int64) *table {
	n := 256
	for want := memory/perBucket + disk/(64<<10); int64(n) < want && n < 1<<24; {
		n *= 2
	}
	return &table{make([]atomic.Pointer[entry], n), make([]atomic.Uint32, n/shared)}
}

// size is what the table takes, in bytes.
func (t *table) size() int64 { return int64(8*len(t.buckets) + 4*len(t.strayed)) }

// lineBits is how many bits of a key's hash are those of its first line, the lowest ones: there are
// no more buckets.
const lineBits = 24

// lineOf returns these bits.
func lineOf(hash uint64) uint64 { return hash & (1<<lineBits - 1) }

// near is the number of a hash's own bucket, far that of the bucket to which it strays.
func (t *table) near(hash uint64) uint64 { return hash & uint64(len(t.buckets)-1) }

func (t *table) far(hash uint64) uint64 {
	far := t.near(hash >> lineBits)
	if far == t.near(hash) {
		far ^= 1
	}
	return far
}

// find returns the entry of a key, or one of that hash whose key is not known yet, or nil.
func (t *table) find(hash uint64, key []byte) *entry {
	near := t.near(hash)
	for e := t.buckets[near].Load(); e != nil; e = e.next.Load() {
		if e.hash == hash && (e.key == string(key) || e.key == "") {
			return e
		}
	}
	if t.strayed[near/shared].Load() == 0 {
		return nil
	}
	for e := t.buckets[t.far(hash)].Load(); e != nil; e = e.next.Load() {
		if e.hash == hash && (e.key == string(key) || e.key == "") {
			return e
		}
	}
	return nil
}

// add inserts an entry.
func (t *table) add(e *entry) {
	at, n := t.near(e.hash), 0
	for x := t.buckets[at].Load(); x != nil && n < maxChain; x = x.next.Load() {
		if t.near(x.hash) == at {
			n++
		}
	}
	if n == maxChain {
		t.strayed[at/shared].Add(1)
		at = t.far(e.hash)
	}
	e.next.Store(t.buckets[at].Load())
	t.buckets[at].Store(e)
}

// remove takes an entry out, if it is there.
func (t *table) remove(e *entry) {
	near := t.near(e.hash)
	if !t.unlink(near, e) && t.strayed[near/shared].Load() > 0 && t.unlink(t.far(e.hash), e) {
		t.strayed[near/shared].Add(^uint32(0))
	}
}

func (t *table) unlink(bucket uint64, e *entry) bool {
	for at := &t.buckets[bucket]; ; {
		switch x := at.Load(); x {
		case nil:
			return false
		case e:
			at.Store(e.next.Load())
			return true
		default:
			at = &x.next
		}
	}
}

// list returns the variants that are in memory, or whose heads are.
func (e *entry) list() []*Object {
	if v := e.objects.Load(); v != nil {
		return unsafe.Slice(&v.at[0], v.n)
	}
	return nil
}

// set makes list the entry's variants.
func (e *entry) set(list []*Object) {
	switch len(list) {
	case 0:
		e.objects.Store(nil)
	case 1:
		o := list[0]
		if o.alone.n == 0 { // later on it may be in use
			o.alone = variants{1, [1]*Object{o}}
		}
		e.objects.Store(&o.alone)
	default:
		v := &several{n: len(list)}
		copy(v.at[:], list)
		e.objects.Store((*variants)(unsafe.Pointer(v))) // which begins with the same fields
	}
}

// without takes an object out of the variants.
func (e *entry) without(o *Object) {
	list := e.list()
	if i := slices.Index(list, o); i >= 0 {
		e.set(slices.Concat(list[:i], list[i+1:]))
	}
}

// empty reports that nothing is left of the entry.
func (e *entry) empty() bool {
	if e.objects.Load() != nil {
		return false
	}
	m := e.more.Load()
	return m == nil || m.empty()
}

func (m *more) empty() bool {
	return len(m.fills) == 0 && len(m.apart) == 0 && len(m.files) == 0 && m.load == nil
}

// slim forgets an entry's more, if it is empty. The caller holds s.mu.
func (s *Store) slim(e *entry) {
	m := e.more.Load()
	if m == nil || !m.empty() {
		return
	}
	e.more.Store(nil)
	if m.files == nil && m.apart == nil && cap(m.fills) == 1 && len(s.mores) < maxMores {
		s.mores = append(s.mores, m)
	}
}

// maxMores is how many of more a store keeps to use again: there is one for each fill.
const maxMores = 256

// extra returns e.more, made if need be. The caller holds s.mu.
func (s *Store) extra(e *entry) *more {
	m := e.more.Load()
	if m != nil {
		return m
	}
	if n := len(s.mores); n > 0 {
		m, s.mores = s.mores[n-1], s.mores[:n-1]
	} else {
		m = new(more)
		m.fills = m.few[:0]
	}
	e.more.Store(m)
	return m
}

// all calls f with the entries of that hash. f may take them out.
func (t *table) all(hash uint64, f func(*entry)) {
	for _, at := range [...]uint64{t.near(hash), t.far(hash)} {
		for e := t.buckets[at].Load(); e != nil; e = e.next.Load() {
			if e.hash == hash {
				f(e)
			}
		}
	}
}

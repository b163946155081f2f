package cachestore

import (
	"slices"
	"sync/atomic"
	"unsafe"
)

// table finds entries by their keys. Lookups take no lock; the holder of Store.mu changes it. It has
// a fixed number of buckets, so that no insert has to move a million entries on a loop.
type table struct {
	buckets []atomic.Pointer[entry]
}

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
	return &table{buckets: make([]atomic.Pointer[entry], n)}
}

func (t *table) bucket(hash uint64) *atomic.Pointer[entry] {
	return &t.buckets[hash&uint64(len(t.buckets)-1)]
}

// find returns the entry of a key, or one of that hash whose key is not known yet, or nil.
func (t *table) find(hash uint64, key []byte) *entry {
	for e := t.bucket(hash).Load(); e != nil; e = e.next.Load() {
		if e.hash == hash && (e.key == string(key) || e.key == "") {
			return e
		}
	}
	return nil
}

// add inserts an entry.
func (t *table) add(e *entry) {
	b := t.bucket(e.hash)
	e.next.Store(b.Load())
	b.Store(e)
}

// remove takes an entry out, if it is there.
func (t *table) remove(e *entry) {
	for at := t.bucket(e.hash); ; {
		switch x := at.Load(); x {
		case nil:
			return
		case e:
			at.Store(e.next.Load())
			return
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
	return m == nil || len(m.fills) == 0 && len(m.files) == 0 && m.load == nil
}

// slim forgets an entry's more, if it is empty. The caller holds s.mu.
func (s *Store) slim(e *entry) {
	m := e.more.Load()
	if m == nil || len(m.fills) > 0 || len(m.files) > 0 || m.load != nil {
		return
	}
	e.more.Store(nil)
	if m.files == nil && cap(m.fills) == 1 && len(s.mores) < maxMores {
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

// any returns an entry of that hash, or nil.
func (t *table) any(hash uint64) *entry {
	for e := t.bucket(hash).Load(); e != nil; e = e.next.Load() {
		if e.hash == hash {
			return e
		}
	}
	return nil
}

package cachestore

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// table finds objects by their keys, and those of a line. Lookups take no lock; the holder of
// Store.mu changes it. It has a fixed number of buckets, so that no insert has to move a million
// objects on a loop, and no pointers.
//
// All keys with the same first line have one bucket, that of the line, so whoever looks for them
// looks there (see hash). But a client may send fields that make ever new keys of one line. So a
// bucket takes maxChain objects. What comes then stands in the bucket of its whole key, and is
// counted as strayed from its own: lookups look there as well, as long as there are such.
type table struct {
	buckets []atomic.Uint64 // refs of the first objects
	strayed []atomic.Uint32 // from shared buckets in a row
	cold    []atomic.Uint32 // entries of shared buckets in a row that have cold files
}

// maxChain is how many objects a bucket takes, beside those that have strayed to it.
const maxChain = 64

// shared is how many buckets have one count of what has strayed: there is next to nothing to count.
const shared = 8

// perBucket is for how many bytes of memory there is a bucket, 8 bytes. Each object that a look-up passes
// in a bucket is a line that the processor does not have at hand.
const perBucket = 1 << 10

func newTable(memory, disk int64) *table {
	n := 256
	for want := memory/perBucket + disk/(64<<10); int64(n) < want && n < 1<<24; {
		n *= 2
	}
	return &table{make([]atomic.Uint64, n), make([]atomic.Uint32, n/shared), make([]atomic.Uint32, n/shared)}
}

// size is what the table takes, in bytes.
func (t *table) size() int64 { return int64(8*len(t.buckets) + 8*len(t.strayed)) }

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

// find appends the objects of a key to list, the newest first.
func (t *table) find(m *slots, hash uint64, key string, list []*Object) []*Object {
	near, n := t.near(hash), len(list)
	if list = t.collect(m, near, hash, key, list); t.strayed[near/shared].Load() > 0 {
		list = t.collect(m, t.far(hash), hash, key, list)
	}
	if len(list)-n > 1 {
		slices.SortFunc(list[n:], newer)
	}
	return list
}

func newer(a, b *Object) int { return cmp.Compare(b.id, a.id) }

// collect is find in one bucket. Where it meets an object whose record is forgotten already, it begins
// again: the bucket has changed, and lookups get through, as that happens once per slab.
func (t *table) collect(m *slots, bucket, hash uint64, key string, list []*Object) []*Object {
	n := len(list)
again:
	list = list[:n]
	for r := ref(t.buckets[bucket].Load()); r != 0; {
		o := (*Object)(m.at(r))
		if o == nil {
			goto again
		}
		if o.hash == hash && o.key() == key {
			list = append(list, o)
		}
		r = ref(o.next.Load())
	}
	return list
}

// top returns the first object of a hash's bucket. While it is the same, and not strayed, no key of
// the bucket has got its first object: new ones come in front.
func (t *table) top(hash uint64) (first ref, strayed bool) {
	near := t.near(hash)
	return ref(t.buckets[near].Load()), t.strayed[near/shared].Load() > 0
}

// since appends the objects of a bucket that have not been examined since a purge.
func (t *table) since(m *slots, bucket int, purge uint64, list []*Object) []*Object {
	for r := ref(t.buckets[bucket].Load()); r != 0; {
		o := (*Object)(m.at(r))
		if o == nil {
			r = ref(t.buckets[bucket].Load())
			continue
		}
		if o.seen.Load() < purge {
			list = append(list, o)
		}
		r = ref(o.next.Load())
	}
	return list
}

// each calls f with the objects of a bucket, until it returns false. The caller holds Store.mu; f may
// remove the object.
func (t *table) each(m *slots, bucket uint64, f func(*Object) bool) {
	for r := ref(t.buckets[bucket].Load()); r != 0; {
		o := (*Object)(m.at(r))
		r = ref(o.next.Load())
		if !f(o) {
			return
		}
	}
}

// add inserts an object.
func (t *table) add(m *slots, o *Object) {
	at, n := t.near(o.hash), 0
	t.each(m, at, func(x *Object) bool {
		if t.near(x.hash) == at {
			n++
		}
		return n < maxChain
	})
	if n == maxChain {
		t.strayed[at/shared].Add(1)
		at = t.far(o.hash)
	}
	o.next.Store(t.buckets[at].Load())
	t.buckets[at].Store(uint64(o.self))
}

// place returns what leads to an object that is in the table, and whether that has strayed.
func (t *table) place(m *slots, o *Object) (at *atomic.Uint64, strayed bool) {
	near := t.near(o.hash)
	if at := t.before(m, near, o.self); at != nil {
		return at, false
	}
	if t.strayed[near/shared].Load() > 0 {
		return t.before(m, t.far(o.hash), o.self), true
	}
	return nil, false
}

func (t *table) before(m *slots, bucket uint64, self ref) *atomic.Uint64 {
	for at := &t.buckets[bucket]; ; {
		switch r := ref(at.Load()); r {
		case 0:
			return nil
		case self:
			return at
		default:
			at = &(*Object)(m.at(r)).next
		}
	}
}

// remove takes an object out, if it is there.
func (t *table) remove(m *slots, o *Object) {
	at, strayed := t.place(m, o)
	if at == nil {
		return
	}
	at.Store(o.next.Load())
	if strayed {
		t.strayed[t.near(o.hash)/shared].Add(^uint32(0))
	}
}

// replace puts another object of the same key in an object's place.
func (t *table) replace(m *slots, o, by *Object) {
	if at, _ := t.place(m, o); at != nil { // else the store is closed
		by.next.Store(o.next.Load())
		at.Store(uint64(by.self))
	}
}

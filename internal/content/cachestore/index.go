package cachestore

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// table finds objects by their keys, and those of a line. Lookups take no lock; the holder of
// Store.mu changes it. It has a fixed number of buckets, so that no insert has to move a million
// objects on a loop, and no pointers.
//
// A bucket is one line of the processor's cache. It has a byte of each key, so whoever looks for a
// key that is not there looks at none of the objects, which are lines that the processor does not
// have at hand. Where more objects come than a bucket has room for, the others are a list behind
// it, of which the bucket has a bit of each key, and how many they are.
//
// All keys with the same first line have one bucket, that of the line, so whoever looks for them
// looks there (see hash). But a client may send fields that make ever new keys of one line. So a
// bucket and its list take maxChain objects. What comes then stands in the bucket of its whole key,
// and is counted as strayed from its own: lookups look there as well, as long as there are such.
type table struct {
	buckets []bucket
	strayed []atomic.Uint32 // from shared buckets in a row
	cold    []atomic.Uint32 // entries of shared buckets in a row that have cold files
	aside   int64           // bytes beside buckets that are never touched, see makeBuckets
}

// bucket is where some objects are. What tells of an object is there after its ref.
type bucket struct {
	// The lower bytes are one for each of refs, see tagOf; 0: that one is free. Above them there is
	// a byte with the bits of those in the list, see bitOf, and then one that counts these, up to
	// manyMore.
	tags atomic.Uint64
	refs [inBucket]atomic.Uint64
	more atomic.Uint64 // the ref of the first object in the list; see Object.next
}

const (
	inBucket   = 6
	bucketSize = 8 * (inBucket + 2)

	bitsAt   = 8 * inBucket // in tags
	countAt  = bitsAt + 8
	manyMore = 0xff
)

// tagOf returns the byte of a key's hash that a bucket has, which is not 0.
func tagOf(hash uint64) uint64 { return hash>>56 | 1 }

// bitOf returns the bit that tags has for a key's hash if the object is in the list.
func bitOf(hash uint64) uint64 { return 1 << (bitsAt + hash>>53&7) }

// The lowest and the highest bit of all tags of a bucket.
const (
	lowBits  = 1 << (8 * inBucket) / 0xff
	highBits = lowBits << 7
)

// alike returns the highest bits of the tags that are equal to tag. There may be others as well,
// above one that is.
func alike(tags, tag uint64) uint64 {
	x := tags ^ tag*lowBits
	return (x - lowBits) &^ x & highBits
}

// which returns which of the tags the lowest bit of x, which is not 0, is in.
func which(x uint64) int { return bits.TrailingZeros64(x) / 8 }

// maxChain is how many objects a bucket takes with its list, beside those that have strayed to it.
const maxChain = 64

// shared is how many buckets have one count of what has strayed: there is next to nothing to count.
const shared = 8

// perBucket is for how many bytes of memory there is a bucket, perFiles for how many of disk.
const (
	perBucket = 2 << 10
	perFiles  = 512 << 10
)

func newTable(memory, disk int64) *table {
	n := 64
	for want := memory/perBucket + disk/perFiles; int64(n) < want/4*3 && n < 1<<24; {
		n *= 2
	}
	t := &table{strayed: make([]atomic.Uint32, n/shared), cold: make([]atomic.Uint32, n/shared)}
	t.makeBuckets(n)
	return t
}

// hugePage is the length of a huge page in bytes.
const hugePage = 2 << 20

// makeBuckets makes n buckets, in huge pages if there are enough for one and the kernel has some.
// Else a look-up, and prefetch as well, waits for the address of a page, too, that the processor
// does not have at hand. Go aligns nothing so, but has memory of the kernel for what is beside them
// only once that is touched.
func (t *table) makeBuckets(n int) {
	if n*bucketSize < hugePage {
		t.buckets = make([]bucket, n)
		return
	}
	t.aside = hugePage
	all := make([]bucket, n+hugePage/bucketSize)
	from := -uintptr(unsafe.Pointer(&all[0])) % hugePage / bucketSize
	t.buckets = all[from:][:n:n]
	b := unsafe.Slice((*byte)(unsafe.Pointer(&t.buckets[0])), n*bucketSize)
	_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // without them, pages are as usual
}

// size is what the table takes, in bytes.
func (t *table) size() int64 { return int64(bucketSize*len(t.buckets) + 8*len(t.strayed)) }

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

// fetch has the processor fetch the bucket of a hash.
func (t *table) fetch(hash uint64) { prefetch(uintptr(unsafe.Pointer(&t.buckets[t.near(hash)]))) }

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

// collect is find in one bucket. Where it meets an object whose record is forgotten already, it
// begins again: the bucket has changed, and lookups get through, as that happens once per slab.
func (t *table) collect(m *slots, at, hash uint64, key string, list []*Object) []*Object {
	n := len(list)
	b := &t.buckets[at]
again:
	list = list[:n]
	tags := b.tags.Load()
	for x := alike(tags, tagOf(hash)); x != 0; x &= x - 1 {
		r := ref(b.refs[which(x)].Load())
		if r == 0 {
			continue // it has just been removed
		}
		o := (*Object)(m.at(r))
		if o == nil {
			goto again
		}
		if o.hash == hash && o.key() == key {
			list = append(list, o)
		}
	}
	if tags&bitOf(hash) == 0 {
		return list
	}
	for r := ref(b.more.Load()); r != 0; {
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

// since appends the objects of a bucket that have not been examined since a purge.
func (t *table) since(m *slots, at int, purge uint64, list []*Object) []*Object {
	n := len(list)
	b := &t.buckets[at]
again:
	list = list[:n]
	for i := 0; i <= inBucket; i++ {
		from := &b.more
		if i < inBucket {
			from = &b.refs[i]
		}
		for r := ref(from.Load()); r != 0; r = ref(from.Load()) {
			o := (*Object)(m.at(r))
			if o == nil {
				goto again
			}
			if o.seen.Load() < purge {
				list = append(list, o)
			}
			if from = &o.next; i < inBucket {
				break
			}
		}
	}
	return list
}

// each calls f with the objects of a bucket, until it returns false. The caller holds Store.mu; f
// may remove the object.
func (t *table) each(m *slots, at uint64, f func(*Object) bool) {
	b := &t.buckets[at]
	for i := range b.refs {
		if r := ref(b.refs[i].Load()); r != 0 && !f((*Object)(m.at(r))) {
			return
		}
	}
	for r := ref(b.more.Load()); r != 0; {
		o := (*Object)(m.at(r))
		r = ref(o.next.Load())
		if !f(o) {
			return
		}
	}
}

// full reports whether a bucket has as many objects of its own as it takes.
func (t *table) full(m *slots, at uint64) bool {
	if t.buckets[at].tags.Load()>>countAt+inBucket < maxChain {
		return false
	}
	n := 0
	t.each(m, at, func(o *Object) bool {
		if t.near(o.hash) == at {
			n++
		}
		return n < maxChain
	})
	return n == maxChain
}

// add inserts an object.
func (t *table) add(m *slots, o *Object) {
	at := t.near(o.hash)
	if t.full(m, at) {
		t.strayed[at/shared].Add(1)
		at = t.far(o.hash)
	}
	b := &t.buckets[at]
	tags := b.tags.Load()
	if free := alike(tags, 0); free != 0 {
		i := which(free)
		b.refs[i].Store(uint64(o.self))
		b.tags.Store(tags | tagOf(o.hash)<<(8*i))
		return
	}
	if first := b.more.Load(); first != 0 {
		o.next.Store(first)
	}
	b.more.Store(uint64(o.self))
	b.tags.Store(listed(tags, o.hash))
}

// listed returns tags with one more object in the list.
func listed(tags, hash uint64) uint64 {
	if tags>>countAt < manyMore {
		tags += 1 << countAt
	}
	return tags | bitOf(hash)
}

// unlisted notes which objects are left in the list after one has been taken out.
func (b *bucket) unlisted(m *slots) {
	tags := b.tags.Load() & (1<<bitsAt - 1)
	for r := ref(b.more.Load()); r != 0; {
		o := (*Object)(m.at(r))
		tags = listed(tags, o.hash)
		r = ref(o.next.Load())
	}
	b.tags.Store(tags)
}

// spot is where an object is in the table.
type spot struct {
	b       *bucket
	i       int            // of b.refs; inBucket: the object is in the list
	at      *atomic.Uint64 // what has its ref; nil: the object is not in the table
	strayed bool
}

// place returns where an object is.
func (t *table) place(m *slots, o *Object) spot {
	near := t.near(o.hash)
	p := t.placeIn(m, near, o)
	if p.at == nil && t.strayed[near/shared].Load() > 0 {
		p = t.placeIn(m, t.far(o.hash), o)
		p.strayed = true
	}
	return p
}

func (t *table) placeIn(m *slots, at uint64, o *Object) spot {
	b := &t.buckets[at]
	for x := alike(b.tags.Load(), tagOf(o.hash)); x != 0; x &= x - 1 {
		if i := which(x); ref(b.refs[i].Load()) == o.self {
			return spot{b: b, i: i, at: &b.refs[i]}
		}
	}
	from := &b.more
	if b.tags.Load()&bitOf(o.hash) == 0 {
		return spot{}
	}
	for r := ref(from.Load()); r != o.self; r = ref(from.Load()) {
		if r == 0 {
			return spot{}
		}
		from = &(*Object)(m.at(r)).next
	}
	return spot{b: b, i: inBucket, at: from}
}

// remove takes an object out, if it is there.
func (t *table) remove(m *slots, o *Object) {
	p := t.place(m, o)
	switch {
	case p.at == nil:
		return
	case p.i < inBucket:
		p.at.Store(0)
		p.b.tags.Store(p.b.tags.Load() &^ (0xff << (8 * p.i)))
	default:
		p.at.Store(o.next.Load())
		p.b.unlisted(m)
	}
	if p.strayed {
		t.strayed[t.near(o.hash)/shared].Add(^uint32(0))
	}
}

// replace puts another object of the same key in an object's place.
func (t *table) replace(m *slots, o, by *Object) {
	if p := t.place(m, o); p.at != nil { // else the store is closed
		if p.i == inBucket {
			by.next.Store(o.next.Load())
		}
		p.at.Store(uint64(by.self))
	}
}

// clear forgets all objects.
func (t *table) clear() {
	for i := range t.buckets {
		b := &t.buckets[i]
		b.tags.Store(0)
		for j := range b.refs {
			b.refs[j].Store(0)
		}
		b.more.Store(0)
	}
}

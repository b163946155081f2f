package cachestore

import (
	"math/bits"
	"sync/atomic"
	"unsafe"
)

// Records of objects and of coded forms lie in slabs: memory without pointers, at which the garbage
// collector does not look. They refer to each other by numbers. A slab is the collector's all the
// same: whoever has a pointer into it keeps it, so a record can be read as long as somebody has it,
// and nobody has to say so. Its place is never used for another record; when none of its records is
// wanted any more, the store forgets all of the slab. What is too long for slabs, and what has a
// file, is an object of its own in ordinary memory. It is found by a number just the same.

// ref is the number of a record: its slot, how often that had been used before, and, in units of 8
// bytes, where it is in the slab; 0: there is none.
type ref uint64

const (
	offsetBits = 13
	slotBits   = 24
)

func makeRef(slot uint32, age uint64, offset int) ref {
	return ref(age<<(slotBits+offsetBits) | uint64(slot)<<offsetBits | uint64(offset)/8)
}

func (r ref) slot() uint32    { return uint32(r>>offsetBits) & (1<<slotBits - 1) }
func (r ref) age() uint64     { return uint64(r >> (slotBits + offsetBits)) }
func (r ref) offset() uintptr { return uintptr(r&(1<<offsetBits-1)) * 8 }

// Sizes of slabs in bytes: a 256th of the memory, within these. One that somebody has is in memory
// as a whole.
const (
	leastSlab = 4 << 10
	mostSlab  = 8 << offsetBits
)

// slot is where a slab is, or a single object. Readers take no lock.
type slot struct {
	age atomic.Uint64 // that refs to it have; 0: they lead nowhere
	at  atomic.Pointer[byte]
}

// slotInfo is what only the holder of Store.mu needs of a slot.
type slotInfo struct {
	age    uint64 // how often it was used
	cost   int64  // bytes of memory
	used   int32  // of a slab; 0: it is a single object
	live   int32  // bytes of wanted records
	cursor int32  // those before it have been looked at by step
	waste  int32  // bytes of unwanted records
	queue  uint32 // where it is
}

// slots are all slots of a store. The holder of Store.mu changes them.
type slots struct {
	size int // of slabs
	most int // how many there may be
	all  atomic.Pointer[[]slot]
	info []slotInfo
	free []uint32
}

func (s *slots) begin(memory int64) {
	s.size = min(max(leastSlab, 1<<(bits.Len64(uint64(memory/256))-1)), mostSlab)
	all := make([]slot, 64)
	s.all.Store(&all)
	s.info = make([]slotInfo, len(all))
	s.most = 1 << slotBits
	s.spare(0)
}

// spareSlots is how many slots are free at least, once there are as many as there may be: one step
// of eviction may take some before it frees any.
const spareSlots = 16

// short reports whether objects have to go since there are no more numbers for slots: that takes 16
// million objects which are no records of slabs, as heads of files are.
func (s *slots) short() bool { return len(s.free) < spareSlots && len(s.info) >= s.most }

// spare makes the slots from the first one on free.
func (s *slots) spare(first int) {
	for i := len(s.info) - 1; i >= first; i-- {
		s.free = append(s.free, uint32(i))
	}
}

// bytes is what the slots themselves take.
func (s *slots) bytes() int64 {
	return int64(len(s.info)) * int64(unsafe.Sizeof(slot{})+unsafe.Sizeof(slotInfo{})+4)
}

// take gives what begins at an address a slot.
func (s *slots) take(at unsafe.Pointer, info slotInfo) uint32 {
	if len(s.free) == 0 {
		s.grow()
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	info.age = s.info[i].age%(1<<(64-slotBits-offsetBits)-1) + 1
	s.info[i] = info
	x := &(*s.all.Load())[i]
	x.at.Store((*byte)(at))
	x.age.Store(info.age)
	return i
}

// grow makes room for twice as many. Those who look up in the old ones meanwhile find what was
// there.
func (s *slots) grow() {
	old := *s.all.Load()
	all := make([]slot, 2*len(old))
	for i := range old {
		all[i].at.Store(old[i].at.Load())
		all[i].age.Store(old[i].age.Load())
	}
	s.info = append(s.info, make([]slotInfo, len(old))...)
	s.all.Store(&all)
	s.spare(len(old))
}

// give makes a slot free.
func (s *slots) give(i uint32) {
	x := &(*s.all.Load())[i]
	x.age.Store(0) // first, see at
	x.at.Store(nil)
	s.info[i].queue = nowhere
	s.free = append(s.free, i)
}

// at returns where a record is, or nil if it is forgotten. Any goroutine may call it. A slot
// changes its age first, so if that is still the one of the ref, what was read before is the ref's.
func (s *slots) at(r ref) unsafe.Pointer {
	all := *s.all.Load()
	i := r.slot()
	if int(i) >= len(all) {
		return nil
	}
	p := all[i].at.Load()
	if all[i].age.Load() != r.age() {
		return nil
	}
	return unsafe.Add(unsafe.Pointer(p), r.offset())
}

// cell is what each record begins with.
type cell struct {
	self ref
	size int32  // in the slab, a multiple of 8
	kind uint32 // isObject, isForm
}

const (
	isObject = iota
	isForm
)

// codedForm is the record of a coded form; its bytes follow.
type codedForm struct {
	cell
	unwanted bool
	n        uint32
}

const codedSize = int(unsafe.Sizeof(codedForm{}))

func (c *codedForm) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(c), codedSize)), c.n)
}

func align(n int) int { return (n + 7) &^ 7 }

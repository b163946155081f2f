package timeoutwheel

import "math/bits"

// A time is read as eleven digits of six bits. Level k of the wheel has a slot for each value of
// digit k, and a timer is on the level of the highest digit in which its time differs from the
// wheel's, in the slot of that digit's value:
//
//	digit      10 ...  3   2   1   0
//	now         0 ...  0   5  12  40
//	timer       0 ...  0   5  30   7     level 1, slot 30
//
// Three things follow, and the package rests on them:
//
//   - The place is a function of the two times alone. Cancel computes it again instead of storing
//     it, and timers of equal time always share a list, so they stay in the order in which they
//     were added.
//   - All of level k is earlier than all of level k+1, and within a level slots are in order of
//     time without wrapping around. The earliest slot is the lowest bit of the lowest level's
//     bitmap.
//   - As now moves on, a place changes only when now enters the timer's slot. Only then must the
//     slot's timers be placed again, closer to level 0.
//
// Wheels that choose the level by distance instead wrap around within a level, and need the level
// stored in each timer and two searches per bitmap.
const (
	digitBits = 6
	slotCount = 1 << digitBits
	// Eleven digits hold 64 bits, so that there is no "too far": a list for what lies beyond the
	// last level would be one more place to search, and the levels never used cost 2.5 KiB each,
	// untouched.
	levelCount = (64 + digitBits - 1) / digitBits
)

// scanLimit is the number of timers that Next looks at to make a bound exact. Few timers are the
// case of a server at rest, where a wake-up in vain shows; with many, timers expire all the time
// and one more wake-up does not.
const scanLimit = 16

type slots struct {
	levels  uint16             // bit k: pending[k] != 0
	pending [levelCount]uint64 // bit s: slot s has timers
	stale   [levelCount]uint64 // bit s: the bound of slot s may be too early
	roots   [levelCount][slotCount]Timer
}

// ordered maps times to unsigned numbers of the same order: two's complement would put the negative
// ones into the last slots of the top level.
func ordered(at int64) uint64 { return uint64(at) ^ 1<<63 }

// place returns where a timer for at belongs when the time is now < at.
func place(now, at int64) (level, slot uint) {
	differ := uint64(now) ^ uint64(at)
	level = uint(bits.Len64(differ)-1) / digitBits
	slot = uint(ordered(at)>>(level*digitBits)) % slotCount
	return level, slot
}

// slotStart returns the first time of a slot when the time is now.
func slotStart(now int64, level, slot uint) int64 {
	shift := level * digitBits
	// On the top level the shift exceeds 63 and the mask becomes all ones.
	below := uint64(1)<<(shift+digitBits) - 1
	start := ordered(now)&^below | uint64(slot)<<shift
	return int64(start ^ 1<<63)
}

// insert puts an idle timer with now < t.at into its slot.
func (s *slots) insert(now int64, t *Timer) {
	level, slot := place(now, t.at)
	s.levels |= 1 << level
	s.pending[level] |= 1 << slot
	if appendTo(&s.roots[level][slot], t) {
		s.stale[level] &^= 1 << slot
	}
}

// remove takes out a timer with now < t.at.
func (s *slots) remove(now int64, t *Timer) {
	level, slot := place(now, t.at)
	root := &s.roots[level][slot]
	unlink(t)
	if isEmpty(root) {
		s.clear(level, slot)
	} else if t.at == root.at {
		s.stale[level] |= 1 << slot
	}
}

// clear notes that a slot is empty.
func (s *slots) clear(level, slot uint) {
	s.stale[level] &^= 1 << slot
	s.pending[level] &^= 1 << slot
	if s.pending[level] == 0 {
		s.levels &^= 1 << level
	}
}

// first returns the earliest slot that has timers.
func (s *slots) first() (level, slot uint, ok bool) {
	if s.levels == 0 {
		return 0, 0, false
	}
	level = uint(bits.TrailingZeros16(s.levels))
	slot = uint(bits.TrailingZeros64(s.pending[level]))
	return level, slot, true
}

// bound returns a time not later than any in the slot, and the earliest of them unless that is the
// time of a timer since removed from a long list.
func (s *slots) bound(level, slot uint) int64 {
	root := &s.roots[level][slot]
	if s.stale[level]&(1<<slot) == 0 {
		return root.at
	}
	earliest := root.next.at
	n := 0
	for t := root.next; t != root && earliest != root.at; t = t.next {
		if n++; n > scanLimit {
			return root.at
		}
		earliest = min(earliest, t.at)
	}
	root.at = earliest
	s.stale[level] &^= 1 << slot
	return earliest
}

// advance takes all timers with at <= target out, in order, to the end of due, and places those
// again whose slot the time has entered. It skips from one slot with timers to the next, so an
// empty stretch costs nothing, and a timer moves at most once per level however far the time jumps.
func (s *slots) advance(now, target int64, due *Timer) {
	for now < target {
		level, slot, ok := s.first()
		if !ok || slotStart(now, level, slot) > target {
			return
		}
		root := &s.roots[level][slot]
		// Going to the first timer rather than to the slot's first moment spares it the levels
		// between. It is safe: nothing lies before the bound.
		now = min(root.at, target)
		t := root.next
		initList(root)
		s.clear(level, slot)
		for t != root {
			next := t.next
			if t.at <= now {
				appendTo(due, t)
			} else {
				s.insert(now, t)
			}
			t = next
		}
	}
}

package timeoutwheel

import "math/bits"

// Len counts the pending timers. During an Advance those count that are due and whose Expire has
// not been called yet.
func (w *Wheel) Len() int {
	n := ringLen(&w.late) + ringLen(&w.fires)
	for level, pending := range w.slots.pending {
		for ; pending != 0; pending &= pending - 1 {
			n += ringLen(&w.slots.roots[level][bits.TrailingZeros64(pending)])
		}
	}
	return n
}

func ringLen(root *Timer) int {
	n := 0
	for t := root.next; t != root; t = t.next {
		n++
	}
	return n
}

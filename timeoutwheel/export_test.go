package timeoutwheel

// Len counts the pending timers. During an Advance those count that are due and whose Expire has
// not been called yet.
func (w *Wheel) Len() int {
	n := ringLen(&w.late) + ringLen(&w.fires)
	for level := range w.slots.roots {
		for slot := range w.slots.roots[level] {
			n += ringLen(&w.slots.roots[level][slot])
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

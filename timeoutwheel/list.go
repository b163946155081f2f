package timeoutwheel

// A list is a ring of timers through a root, which is a Timer without owner. With a root in the
// ring, a timer is unlinked without knowing which list it is in. Cancel needs that, because a timer
// that is due may be in either of two lists.
//
// The root's own time is free for another use: while the list is not empty, it is a lower bound of
// the times in it. Appending keeps the bound exact. Unlinking does not, because finding the next
// smallest time would cost a walk.

func initList(root *Timer) { root.next, root.prev = root, root }

func isEmpty(root *Timer) bool { return root.next == root }

// appendTo puts t, which is idle, at the end. It reports whether the bound is t's own time now, and
// so is exact.
func appendTo(root, t *Timer) bool {
	lowest := isEmpty(root) || t.at <= root.at
	if lowest {
		root.at = t.at
	}
	last := root.prev
	t.prev, t.next = last, root
	last.next, root.prev = t, t
	return lowest
}

func unlink(t *Timer) {
	t.prev.next, t.next.prev = t.next, t.prev
	t.next, t.prev = nil, nil
}

// moveAll appends all of from to root and leaves from empty.
func moveAll(root, from *Timer) {
	if isEmpty(from) {
		return
	}
	if isEmpty(root) || from.at < root.at {
		root.at = from.at
	}
	last := root.prev
	last.next, from.next.prev = from.next, last
	from.prev.next, root.prev = root, from.prev
	initList(from)
}

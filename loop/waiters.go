package loop

// waiters are threads in the order in which they came. A thread that leaves is looked for among a
// few of them, and in an index if they are many: thousands may give up in one turn. The owner of
// the waiters guards them.
type waiters struct {
	first, last *waiter
	n           int
	index       map[*Thread]*waiter // nil while they are few
}

// waiter is one thread, which may wait more than once at a time.
type waiter struct {
	thread     *Thread
	times      int
	prev, next *waiter
}

const fewWaiters = 16

func (ws *waiters) add(t *Thread) {
	if w := ws.find(t); w != nil {
		w.times++
		return
	}
	w := &waiter{thread: t, times: 1, prev: ws.last}
	if ws.last == nil {
		ws.first = w
	} else {
		ws.last.next = w
	}
	ws.last = w
	switch ws.n++; {
	case ws.index != nil:
		ws.index[t] = w
	case ws.n > fewWaiters:
		ws.index = make(map[*Thread]*waiter, 2*ws.n)
		for w := ws.first; w != nil; w = w.next {
			ws.index[w.thread] = w
		}
	}
}

// remove undoes one add of t, if there is one.
func (ws *waiters) remove(t *Thread) {
	w := ws.find(t)
	if w == nil {
		return
	}
	if w.times--; w.times > 0 {
		return
	}
	if w.prev == nil {
		ws.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		ws.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	if delete(ws.index, t); ws.first == nil {
		ws.index = nil // a map does not shrink
	}
	ws.n--
}

func (ws *waiters) find(t *Thread) *waiter {
	if ws.index != nil {
		return ws.index[t]
	}
	for w := ws.first; w != nil; w = w.next {
		if w.thread == t {
			return w
		}
	}
	return nil
}

package loop

// waiters are threads in the order in which they came. To leave, one is found among a few by looking at them and among many by
// an index: thousands may give up in one turn. Whoever has them guards them.
type waiters struct {
	first, last *waiter
	n           int
	index       map[*Thread]*waiter // nil while they are few
}

// waiter is one thread, which may wait several times over.
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

// remove does nothing where t is not there.
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
		ws.index = nil // which does not shrink by itself
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

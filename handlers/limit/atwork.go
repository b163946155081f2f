package limit

import "sync"

// atWork counts the requests of each client that are being answered. It has an entry for a client
// only as long as there is one, so it has no more of them than the server has connections.
type atWork struct {
	limit  int
	shards [16]struct {
		sync.Mutex
		count map[uint64]int
	}
}

func newAtWork(limit int) *atWork {
	w := &atWork{limit: limit}
	for i := range w.shards {
		w.shards[i].count = make(map[uint64]int)
	}
	return w
}

// enter counts one more, unless there are too many.
func (w *atWork) enter(key uint64) bool {
	s := &w.shards[key%uint64(len(w.shards))]
	s.Lock()
	defer s.Unlock()
	if s.count[key] >= w.limit {
		return false
	}
	s.count[key]++
	return true
}

// leave undoes enter.
func (w *atWork) leave(key uint64) {
	s := &w.shards[key%uint64(len(w.shards))]
	s.Lock()
	defer s.Unlock()
	if s.count[key]--; s.count[key] == 0 {
		delete(s.count, key)
	}
}

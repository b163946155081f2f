package cachestore

// MaxMarks is for tests.
const MaxMarks = maxMarks

// Marks returns how many purges are remembered.
func (s *Store) Marks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.purges.tags) + len(s.purges.prefixes)
}

// Check panics if what the store counts is not what it has.
func (s *Store) Check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var n, bytes int64
	for i := range s.table.buckets {
		for e := s.table.buckets[i].Load(); e != nil; e = e.next.Load() {
			if e.empty() {
				panic("an empty entry is in the table")
			}
			for _, o := range e.list() {
				if o.entry != e || o.in.in == nowhere || o.in.cost != o.cost() {
					panic("an object is in disorder")
				}
				n++
				bytes += o.in.cost
			}
		}
	}
	fixed := int64(8 * (len(s.table.buckets) + len(s.memory.ghosts.slots)))
	if m := &s.memory; n != m.small.n+m.main.n || bytes != m.small.bytes+m.main.bytes ||
		bytes+m.held+fixed != m.used {
		panic("the bytes are wrong")
	}
}

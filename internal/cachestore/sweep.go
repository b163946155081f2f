package cachestore

// sweep has a goroutine look for what was purged, so that its memory comes back although nobody asks
// for it. The caller holds s.mu.
func (s *Store) sweep() {
	if s.purges.sweeping {
		return
	}
	s.purges.sweeping = true
	go func() {
		for {
			s.mu.Lock()
			until := s.purges.now
			deep := s.disk != nil && s.disk.ready.Load() && !s.scanning && s.purges.many()
			s.mu.Unlock()
			s.walk(until, deep)
			s.mu.Lock()
			if s.disk == nil || deep {
				s.settle(until)
			}
			more := s.purges.now != until
			s.purges.sweeping = more
			s.mu.Unlock()
			if deep {
				s.disk.compact()
			}
			if !more {
				return
			}
		}
	}()
}

// walk examines all objects. It holds the lock for one entry at a time, and only where there is
// something to examine. With deep, it reads the heads that are only on disk, too.
func (s *Store) walk(until uint64, deep bool) {
	for i := range s.table.buckets {
		for e := s.table.buckets[i].Load(); e != nil; e = e.next.Load() {
			if m := e.more.Load(); m != nil && m.cold.Load() {
				if deep {
					s.loadAll(e)
				}
				s.examine(e)
				continue
			}
			for _, o := range e.list() {
				if o.seen.Load() < until {
					s.examine(e)
					break
				}
			}
		}
	}
}

// settle forgets purges that have taken effect on all objects, up to number until. What is on its
// way since before them still has to be judged by them; if there are too many, it is not kept. The
// caller holds s.mu.
func (s *Store) settle(until uint64) {
	many := s.purges.many()
	for f := range s.filling {
		if many && f.since < until {
			f.spoil(false)
		} else {
			until = min(until, f.since)
		}
	}
	s.purges.forget(until)
}

package cachestore

// sweep has a goroutine look for what was purged, so that its memory comes back although nobody
// asks for it. The caller holds s.mu.
func (s *Store) sweep() {
	p := &s.purges
	if p.sweeping {
		return
	}
	p.sweeping = true
	go func() {
		for {
			s.mu.Lock()
			until := p.now
			deep := s.disk != nil && s.disksReady() && s.crowded()
			s.mu.Unlock()
			s.walk(until, deep)
			if deep {
				s.awaitUnlinks()
			}
			s.mu.Lock()
			switch {
			case s.disk == nil || deep:
				s.settle(until)
				if s.partly() || len(s.leaving) > 0 {
					p.unseen = until
				}
			case s.crowded() && !s.disksReady():
				s.settle(until)
				p.lost = true
			}
			s.mu.Unlock()
			if deep {
				s.disk.compact()
			}
			s.mu.Lock()
			more := p.wanted > until || s.crowded()
			p.sweeping = more
			s.mu.Unlock()
			if !more {
				return
			}
		}
	}()
}

// crowded reports whether there are too many marks, and a sweep would be rid of them: while files
// are looked for, it would not reach all. The caller holds s.mu.
func (s *Store) crowded() bool { return s.purges.many() && !s.scanning() }

// walk examines all objects. It holds the lock for one key at a time, and only where there is
// something to examine. With deep, it reads the heads that are only on disk, too.
func (s *Store) walk(until uint64, deep bool) {
	var list []*Object
	for i := range s.table.buckets {
		list = s.table.since(&s.memory.slots, i, until, list[:0])
		for _, o := range list {
			s.examine(o.hash, o.key())
		}
	}
	s.mu.Lock()
	entries := s.entries.all()
	s.mu.Unlock()
	for _, e := range entries {
		if deep {
			s.loadAll(e)
		}
		s.mu.Lock()
		s.examineLocked(e.hash, e.key)
		s.mu.Unlock()
		if deep {
			s.rewriteStale(e)
		}
	}
}

// rewriteStale writes down which objects of an entry are stale, before it is forgotten why.
func (s *Store) rewriteStale(e *entry) {
	s.mu.Lock()
	var stale []*file
	for _, f := range e.files {
		if f.object != nil && f.object.Stale() {
			stale = append(stale, f)
		}
	}
	s.mu.Unlock()
	for _, f := range stale {
		s.rewriteNow(f)
	}
}

// settle forgets purges that have taken effect on all objects, up to number until. What is on its
// way since before them still has to be judged by them; if there are too many, it is not kept. The
// caller holds s.mu.
func (s *Store) settle(until uint64) {
	many := s.purges.many()
	for f := s.filling; f != nil; f = f.older {
		if many && f.since < until {
			f.purge(0)
		} else {
			until = min(until, f.since)
		}
	}
	s.purges.forget(until)
}

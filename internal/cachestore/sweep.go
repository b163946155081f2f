package cachestore

import (
	"maps"
	"slices"
)

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
			s.mu.Unlock()
			s.walk(until)
			s.mu.Lock()
			if s.purges.now == until {
				s.purges.settle(s)
				s.purges.sweeping = false
				s.mu.Unlock()
				return
			}
			s.mu.Unlock()
		}
	}()
}

// walk examines all objects. It holds the lock for one bucket at a time, and only where there is
// something to examine.
func (s *Store) walk(until uint64) {
	for i := range s.table.buckets {
		for e := s.table.buckets[i].Load(); e != nil; e = e.next.Load() {
			for _, o := range e.list() {
				if o.seen.Load() < until {
					s.examine(e)
					break
				}
			}
		}
	}
}

// maxMarks bounds what purges remembers.
const maxMarks = 4096

// settle forgets purges that have taken effect on all objects. What is on its way since before them
// still has to be judged by them; if there are too many, it is not kept.
func (p *purges) settle(s *Store) {
	first := p.now
	many := len(p.tags)+len(p.prefixes) > maxMarks
	for f := range s.filling {
		if many && f.since < p.now {
			f.spoil(false)
		} else {
			first = min(first, f.since)
		}
	}
	done := func(m marks) bool { return max(m.hard, m.soft) <= first }
	p.prefixes = slices.DeleteFunc(p.prefixes, func(m prefixMark) bool { return done(m.marks) })
	maps.DeleteFunc(p.tags, func(_ string, m marks) bool { return done(m) })
}

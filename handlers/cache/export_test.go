package cache

import "time"

const MaxRefreshes = maxRefreshes

// Skip puts all clocks forward.
func (s *Store) Skip(d time.Duration) { s.clock.skew.Add(int64(d)) }

// Jump puts the machine's clock forward or back.
func (s *Store) Jump(d time.Duration) { s.clock.jump.Add(int64(d)) }

package cache

import "time"

const MaxRefreshes = maxRefreshes

// Skip puts the store's clock forward.
func (s *Store) Skip(d time.Duration) { s.skew.Add(int64(d)) }

package cache

import (
	"time"

	"github.com/lwango/lwango/internal/cachestore"
)

// Skip puts the store's clock forward.
func (s *Store) Skip(d time.Duration) { s.skew.Add(int64(d)) }

// Stats are those of what is below.
func (s *Store) Stats() cachestore.Stats { return s.at.Load().Stats() }

package cache

import (
	"time"

	"github.com/lwango/lwango/internal/cachestore"
	"github.com/lwango/lwango/internal/rfc9111"
)

const MaxRefreshes = maxRefreshes / 4 * 3 // of one site

// Skip puts all clocks forward.
func (s *Store) Skip(d time.Duration) { s.clock.skew.Add(int64(d)) }

// Jump puts the machine's clock forward or back.
func (s *Store) Jump(d time.Duration) { s.clock.jump.Add(int64(d)) }

// Reread returns when an answer was received that goes to disk and comes back from there after
// between, and whether it has to be validated.
func (s *Store) Reread(received time.Time, between func()) (time.Time, bool) {
	h := cachestore.Head{Meta: (&kept{fresh: rfc9111.Freshness{Received: received.UnixNano()}}).meta()}
	text := s.note(&h)
	between()
	s.parse(&h, text)
	f := &answerOf(&h).fresh
	return time.Unix(0, f.Received), f.Validate
}

// Functions for tests.
var (
	SortQuery  = sortQuery
	AppendTags = appendTags
)

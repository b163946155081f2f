package auth_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/auth"
)

// TestCacheIsBounded: answers expire, and the oldest one makes way where there are many.
func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := auth.NewCache(10 * time.Second)
	c.Add(1, now)
	c.Add(1, now.Add(5*time.Second)) // asked for twice at a time: the first one counts
	if !c.Has(1, now.Add(9*time.Second)) || c.Has(1, now.Add(10*time.Second)) || c.Has(2, now) {
		t.Error("an answer does not hold for its time")
	}
	for n := range 2 * auth.MaxAnswers {
		c.Add(n+10, now)
	}
	if c.Len() != auth.MaxAnswers || c.Has(10, now) || !c.Has(2*auth.MaxAnswers+9, now) {
		t.Errorf("%d answers", c.Len())
	}
	c.Add(3, now.Add(20*time.Second))
	if c.Len() != 1 || !c.Has(3, now.Add(20*time.Second)) {
		t.Errorf("%d answers when all others have expired", c.Len())
	}
}

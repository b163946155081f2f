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
	// All have expired. They make way some at a time: no request waits until all are gone.
	now = now.Add(20 * time.Second)
	for i := range auth.MaxAnswers / auth.MaxRemoved {
		n := 2*auth.MaxAnswers + i // the first ten of them have expired answers
		c.Add(n, now)
		if want := auth.MaxAnswers - (i+1)*auth.MaxRemoved + i + 1; c.Len() != want || !c.Has(n, now) {
			t.Fatalf("%d answers after %d new ones, expected %d", c.Len(), i+1, want)
		}
	}
	for n := range 10 {
		if !c.Has(2*auth.MaxAnswers+n, now) {
			t.Errorf("%d: a new answer has gone with the old one", n)
		}
	}
}

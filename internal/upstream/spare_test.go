package upstream_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// crowded is an upstream with n places, all taken by 192.0.2.1, of which more requests wait. answer
// lets it answer a request that it has.
func crowded(t *testing.T, n, waiting int) (s *service, pool *upstream.Pool, r *route,
	done chan got, answer func(line string)) {
	t.Helper()
	const others = 4
	gates := make(map[string]chan bool)
	for i := range n + waiting {
		gates[fmt.Sprint("crowd", i)] = make(chan bool)
	}
	for i := range others {
		gates[fmt.Sprint("other", i)] = make(chan bool)
	}
	s = start(t, func(_ int, line string) string { <-gates[line]; return line })
	t.Cleanup(func() {
		for _, gate := range gates {
			close(gate)
		}
	})
	pool, all := limited(t, s, 0, n)
	done = make(chan got, n+waiting+others)
	for i := range n + waiting {
		all[0].askFor("192.0.2.1", fmt.Sprint("crowd", i), done)
		if i < n {
			s.requests(t, i+1)
		} else {
			wait.Until(t, "it waits", func() bool { return pool.Waiting() == i+1-n })
		}
	}
	return s, pool, all[0], done, func(line string) {
		t.Helper()
		wait.Until(t, line+" comes", func() bool { return slices.Contains(s.seen(), line) })
		gates[line] <- true
		if g := <-done; g.text != line {
			t.Error(line, ": ", g)
		}
	}
}

// TestLastPlaceIsSpare: where a crowd of one client waits and others come, the first of these gets
// the next place that becomes free, and from then on each finds one free, and needs not wait until
// one of the crowd has its answer. The crowd had all places while it was alone.
func TestLastPlaceIsSpare(t *testing.T) {
	defer upstream.SharedFor(time.Hour)()
	s, pool, r, done, answer := crowded(t, 4, 8)
	r.askFor("192.0.2.2", "other0", done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 9 })
	answer("crowd0")
	s.requests(t, 5) // crowd1 to crowd3, other0
	answer("other0") // and none of the crowd takes its place

	r.askFor("192.0.2.3", "other1", done)
	s.requests(t, 6)
	r.askFor("192.0.2.3", "other2", done) // its site has a place: it waits for its turn
	wait.Until(t, "it waits, too", func() bool { return pool.Waiting() == 9 })
	answer("crowd1") // none takes its place, the last
	r.askFor("2001:db8::1", "other3", done)
	s.requests(t, 7)
	answer("other3")
	answer("other1") // two are free: one is for other2, whose site has none
	s.requests(t, 8)
	answer("other2")
	s.requests(t, 9)

	want := []string{"other0", "other1", "other3", "other2", "crowd4"}
	if seen := s.seen(); !slices.Equal(seen[4:], want) {
		t.Errorf("%q, want %q", seen[4:], want)
	}
	upstream.SharedFor(0)
	for i := 2; i < 12; i++ {
		answer(fmt.Sprint("crowd", i))
	}
	if n := pool.Active(); n != 0 {
		t.Error(n, " places are taken")
	}
}

// TestSpareEnds: the crowd has all places again when no other has come for a while.
func TestSpareEnds(t *testing.T) {
	defer upstream.SharedFor(time.Millisecond)()
	s, pool, r, done, answer := crowded(t, 4, 2)
	r.askFor("192.0.2.2", "other0", done)
	wait.Until(t, "it waits", func() bool { return pool.Waiting() == 3 })
	answer("crowd0")
	s.requests(t, 5)
	answer("other0")
	s.requests(t, 6) // the time is over, and nothing else happens
	if last := s.seen()[5]; last != "crowd4" {
		t.Error(last)
	}
	for i := 1; i < 6; i++ {
		answer(fmt.Sprint("crowd", i))
	}
}

// TestFewPlacesHaveNoneToSpare: of two or three places a crowd gets all, though others come.
func TestFewPlacesHaveNoneToSpare(t *testing.T) {
	defer upstream.SharedFor(time.Hour)()
	for n := 2; n < 4; n++ {
		s, pool, r, done, answer := crowded(t, n, 2)
		r.askFor("192.0.2.2", "other0", done)
		wait.Until(t, "it waits", func() bool { return pool.Waiting() == 3 })
		answer("crowd0")
		s.requests(t, n+1)
		answer("other0")
		s.requests(t, n+2)
		for i := 1; i < n+2; i++ {
			answer(fmt.Sprint("crowd", i))
		}
	}
}

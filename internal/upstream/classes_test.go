package upstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
)

// weighted returns a group of n addresses with weights in turn, and the weight of each by its name.
func weighted(t *testing.T, n int, change func(*upstream.Settings),
	weights ...int) (*upstream.Group, map[string]int) {
	t.Helper()
	of := make(map[string]int)
	var all []string
	for i := range n {
		name, w := fmt.Sprintf("10.0.%d.%d:80", i/250, i%250), weights[i%len(weights)]
		of[name] = w
		all = append(all, fmt.Sprint(name, " weight=", w))
	}
	s := upstream.Settings{Addresses: all}
	if change != nil {
		change(&s)
	}
	g := must.Get(new(upstream.Pool).Group(s))(t)
	return g, of
}

// shares checks that each address has had as many of n picks as its weight says, give or take two.
func shares(t *testing.T, what string, g *upstream.Group, n int, of map[string]int) {
	t.Helper()
	total := 0
	for _, w := range of {
		total += w
	}
	counts := make(map[string]int)
	for range n {
		counts[upstream.Pick(g, 0)]++
	}
	for name, k := range counts {
		if of[name] == 0 {
			t.Errorf("%s: %d requests for %q", what, k, name)
		}
	}
	for name, w := range of {
		if want := float64(n*w) / float64(total); float64(counts[name]) < want-2 ||
			float64(counts[name]) > want+2 {
			t.Errorf("%s: %d requests for %s with weight %d, want %.1f", what, counts[name], name, w, want)
		}
	}
}

// TestUnequalWeights: of many addresses with unequal weights each has its share, and also while
// some do not work, whichever weights these have, and after they work again, without arrears. An
// address has its turns spread evenly.
func TestUnequalWeights(t *testing.T) {
	t.Parallel()
	for _, weights := range [][]int{{1, 3}, {1, 3, 10}, {100, 1, 1}} {
		g, of := weighted(t, 60, nil, weights...)
		total := 0
		for _, w := range of {
			total += w
		}
		rounds := max(2*total, 2000)
		shares(t, fmt.Sprint(weights), g, rounds, of)

		down := make(map[string]int)
		for name, w := range of {
			if w == weights[0] {
				upstream.Avoid(g, name, time.Hour)
				down[name] = w
				delete(of, name)
			}
		}
		shares(t, fmt.Sprint(weights, " without the first"), g, 2000, of)
		for name, w := range down {
			upstream.CameUp(g, name, time.Hour)
			of[name] = w
		}
		shares(t, fmt.Sprint(weights, " with it again"), g, rounds, of)
	}

	g, of := weighted(t, 60, nil, 1, 3)
	last := make(map[string]int)
	for i := range 600 {
		name := upstream.Pick(g, 0)
		if before, had := last[name]; had && (i-before < 60/of[name] || i-before > 180/of[name]) {
			t.Errorf("%s with weight %d, after %d others", name, of[name], i-before)
		}
		last[name] = i
	}
}

// TestUnequalSlowStart: while the weight of one of many grows it has its part, and so have the
// others.
func TestUnequalSlowStart(t *testing.T) {
	t.Parallel()
	g, of := weighted(t, 40, func(s *upstream.Settings) { s.SlowStart = 10 * time.Hour }, 10, 30)
	shares(t, "at the start", g, 8000, of)
	upstream.CameUp(g, "10.0.0.0:80", 5*time.Hour)
	of["10.0.0.0:80"] = 5
	shares(t, "in the middle", g, 8000, of)
}

// TestUnequalLeastConn: connections in use are divided as weights are, among the addresses that
// work.
func TestUnequalLeastConn(t *testing.T) {
	t.Parallel()
	g, of := weighted(t, 60, func(s *upstream.Settings) { s.Balance = upstream.LeastConn }, 1, 3)
	shares(t, "idle", g, 4*120, of)
	for name, w := range of {
		if w == 3 && len(of) > 50 {
			upstream.Avoid(g, name, time.Hour)
			delete(of, name)
		}
	}
	total := 0
	for _, w := range of {
		total += w
	}
	held := make(map[string]int)
	var gives []func()
	for range 2 * total {
		name, give := upstream.Take(g, 0)
		held[name]++
		gives = append(gives, give)
	}
	for name, w := range of {
		if held[name] != 2*w {
			t.Errorf("%d connections to %s with weight %d", held[name], name, w)
		}
	}
	if len(held) != len(of) {
		t.Errorf("connections to %d addresses of %d", len(held), len(of))
	}
	for _, give := range gives {
		give()
	}
}

// TestUnequalLeastConnReturns: addresses that work again have their share, and not also what they
// would have had meanwhile.
func TestUnequalLeastConnReturns(t *testing.T) {
	t.Parallel()
	g, of := weighted(t, 40, func(s *upstream.Settings) { s.Balance = upstream.LeastConn }, 1, 3)
	take := func(n int) (threes int) {
		for range n {
			name, give := upstream.Take(g, 0)
			if of[name] == 3 {
				threes++
			}
			give()
		}
		return threes
	}
	for name, w := range of {
		if w == 3 {
			upstream.Avoid(g, name, time.Hour)
		}
	}
	if n := take(1000); n > 0 {
		t.Errorf("%d of those that do not work", n)
	}
	for name, w := range of {
		if w == 3 {
			upstream.CameUp(g, name, time.Hour)
		}
	}
	if n := take(400); n != 300 {
		t.Errorf("%d of 400, want 300", n)
	}
}

// TestUnequalBackups: backups with weights of their own have requests while no other works.
func TestUnequalBackups(t *testing.T) {
	t.Parallel()
	of := make(map[string]int)
	var all, first []string
	for i := range 60 {
		name := fmt.Sprintf("10.0.0.%d:80", i)
		if i < 30 {
			first = append(first, name)
			all = append(all, name)
			continue
		}
		of[name] = i%3 + 1
		all = append(all, fmt.Sprint(name, " backup weight=", of[name]))
	}
	g := must.Get(new(upstream.Pool).Group(upstream.Settings{Addresses: all}))(t)
	for _, name := range first {
		upstream.Avoid(g, name, time.Hour)
	}
	shares(t, "backups", g, 600, of)
	upstream.CameUp(g, first[0], time.Hour)
	shares(t, "one works", g, 50, map[string]int{first[0]: 1})
}

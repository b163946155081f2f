package upstream_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

func random(s *upstream.Settings) { s.Balance = upstream.Random }

// TestRandom: of two addresses, the one with fewer connections is taken; of more, all have a part,
// as their weights say.
func TestRandom(t *testing.T) {
	slow, goOn := stepwise(t)
	_, a := crowd(t, 1)
	r := alone(t, append([]string{slow.address}, a...), random)
	done := make(chan got, 1)
	for r.ask("x", false, done); len(slow.seen()) == 0; {
		select {
		case <-done: // it has drawn the other one
			r.ask("x", false, done)
		default:
			runtime.Gosched()
		}
	}
	beside := make(chan got, 1)
	for range 3000 {
		r.ask("x", false, beside)
		select {
		case <-beside:
		case <-time.After(wait.Patience):
			t.Fatal("a request was sent to the address that is busy")
		}
	}
	goOn <- true
	answered(t, done)

	_, a = crowd(t, 3)
	a[0] += " weight=8"
	texts := alone(t, a, random).texts(200)
	for i, least := range []int{120, 5, 5} {
		if n := strings.Count(texts, fmt.Sprint(i)); n < least {
			t.Errorf("%d requests of 200 for address %d", n, i)
		}
	}
}

// keyed makes a route with Hash, whose requests have their text as their key.
func keyed(t *testing.T, addresses []string) *route {
	r := alone(t, addresses, func(s *upstream.Settings) { s.Balance = upstream.Hash })
	r.prepare = func(l *upstream.Lease, line string) {
		if line != "none" {
			l.Key = upstream.HashOf(line)
		}
	}
	return r
}

// where returns to which address each of n keys leads.
func (r *route) where(n int) (all []string) {
	for i := range n {
		all = append(all, r.get(fmt.Sprint("key", i)).text)
	}
	return all
}

// TestHash: a key leads to the same address always, in proportion to the weights. If one goes, only
// its keys move, and they come back with it.
func TestHash(t *testing.T) {
	const keys = 1200 // 40 % of what an address gets of them are 6 standard deviations, at least
	services, a := crowd(t, 4)
	a[3] += " weight=3"
	r := keyed(t, a)
	before := r.where(keys)
	for i, want := range []int{200, 200, 200, 600} {
		if n := strings.Count(strings.Join(before, ""), fmt.Sprint(i)); n < want*6/10 || n > want*14/10 {
			t.Errorf("%d keys of %d at address %d, want about %d", n, keys, i, want)
		}
	}
	less := keyed(t, a[1:]).where(keys)
	services[0].stop()
	for i, now := range r.where(keys) {
		switch {
		case before[i] == "0" && now == "0":
			t.Fatalf("key %d went to a service that has ended", i)
		case before[i] != "0" && now != before[i]:
			t.Fatalf("key %d has moved from %s to %s", i, before[i], now)
		case now != less[i]:
			t.Fatalf("key %d: %s while an address does not work, %s without it", i, now, less[i])
		}
	}
	startAt(t, a[0], says("0"))
	again := keyed(t, a) // has the same hashes, and a pool that has seen no failure
	for i, now := range again.where(keys) {
		if now != before[i] {
			t.Fatalf("key %d was at %s, and is at %s now", i, before[i], now)
		}
	}
	seen := ""
	for range 8 {
		seen += again.get("none").text
	}
	for i := range 4 {
		if !strings.Contains(seen, fmt.Sprint(i)) {
			t.Errorf("requests without a key went to %s only", seen)
		}
	}
}

// TestHashOverflow: where the address of a key has no slot, the request goes to another one.
func TestHashOverflow(t *testing.T) {
	one, goOne := stepwise(t)
	two, goTwo := stepwise(t)
	r := alone(t, []string{one.address, two.address}, func(s *upstream.Settings) {
		s.Balance, s.MaxConns = upstream.Hash, 1
	})
	r.prepare = func(l *upstream.Lease, _ string) { l.Key = 1 }
	done := make(chan got)
	r.ask("x", false, done)
	r.ask("x", false, done)
	one.requests(t, 1)
	two.requests(t, 1)
	goOne <- true
	goTwo <- true
	answered(t, done)
	answered(t, done)
}

package upstream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
)

// many returns a group of n addresses, each with one of the weights.
func many(t testing.TB, n int, b upstream.Balance, weights ...int) *upstream.Group {
	t.Helper()
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("10.0.%d.%d:80 weight=%d", i/250, i%250, weights[i%len(weights)]))
	}
	g := must.Get(new(upstream.Pool).Group(upstream.Settings{Addresses: all, Balance: b}))(t)
	return g
}

// BenchmarkPick is what a request's slot costs under the pool's lock.
func BenchmarkPick(b *testing.B) {
	for _, n := range []int{2, 200} {
		for name, balance := range map[string]upstream.Balance{"round_robin": upstream.RoundRobin,
			"least_conn": upstream.LeastConn, "random": upstream.Random, "hash": upstream.Hash} {
			for _, weights := range [][]int{{1}, {1, 3}} {
				b.Run(fmt.Sprint(name, "/", n, "/", len(weights)), func(b *testing.B) {
					g := many(b, n, balance, weights...)
					for i := 0; b.Loop(); i++ {
						upstream.Pick(g, uint64(i)*0x9e3779b97f4a7c15|1)
					}
				})
			}
		}
	}
}

// BenchmarkPickBusy is BenchmarkPick where each address has connections, and with one of many that
// does not work.
func BenchmarkPickBusy(b *testing.B) {
	for name, balance := range map[string]upstream.Balance{"round_robin": upstream.RoundRobin,
		"least_conn": upstream.LeastConn} {
		for _, weights := range [][]int{{1}, {1, 3}} {
			b.Run(fmt.Sprint(name, "/200/", len(weights)), func(b *testing.B) {
				g := many(b, 200, balance, weights...)
				for range 400 {
					_, give := upstream.Take(g, 0)
					defer give()
				}
				upstream.Avoid(g, "10.0.0.7:80", time.Hour)
				for b.Loop() {
					upstream.Pick(g, 0)
				}
			})
		}
	}
}

// TestManyTakeTurns: of 200 addresses with the same weight each has as many requests, whatever the
// balance, and one that is drained has none.
func TestManyTakeTurns(t *testing.T) {
	t.Parallel()
	const n, rounds = 200, 20
	for name, balance := range map[string]upstream.Balance{"round_robin": upstream.RoundRobin,
		"least_conn": upstream.LeastConn, "random": upstream.Random, "hash": upstream.Hash} {
		g := many(t, n, balance, 1)
		g.SetState("10.0.0.7:80", "drain")
		counts := make(map[string]int)
		for i := range uint64(n * rounds) {
			counts[upstream.Pick(g, upstream.HashOf(fmt.Sprint(i)))]++
		}
		if len(counts) != n-1 || counts["10.0.0.7:80"] > 0 || counts[""] > 0 {
			t.Errorf("%s: %d addresses, %v", name, len(counts), counts)
		}
		for address, k := range counts {
			exact := balance == upstream.RoundRobin || balance == upstream.LeastConn
			if exact && (k < rounds || k > rounds+1) || k > rounds*3 {
				t.Errorf("%s: %s has %d requests of %d", name, address, k, n*rounds)
			}
		}
	}
}

// TestManyWeights: of 200 addresses those with three times the weight have three times the
// requests.
func TestManyWeights(t *testing.T) {
	t.Parallel()
	const n, rounds = 200, 40
	for name, balance := range map[string]upstream.Balance{"round_robin": upstream.RoundRobin,
		"least_conn": upstream.LeastConn, "random": upstream.Random, "hash": upstream.Hash} {
		g := many(t, n, balance, 1, 3)
		heavy := 0
		for i := range uint64(n * rounds) {
			address := upstream.Pick(g, upstream.HashOf(fmt.Sprint(i)))
			if strings.TrimSuffix(address, ":80")[len(address)-4]&1 == 1 { // odd ones have three
				heavy++
			}
		}
		// Of 8,000 draws the standard deviation is 39.
		if least, most := n*rounds*3/4-300, n*rounds*3/4+300; heavy < least || heavy > most {
			t.Errorf("%s: %d of %d requests", name, heavy, n*rounds)
		}
	}
}

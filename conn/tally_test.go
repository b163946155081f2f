package conn_test

import (
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
)

// tallied adds up what the loops of s have counted; of the routes only the first one.
func tallied(s *site) (sum conn.Tally) {
	s.T.Helper()
	sum.Places = make([]conn.PlaceTally, 1)
	for _, l := range s.All {
		loops.On(s.T, l, func(l *loop.Loop) {
			t := s.Tally(l)
			sum.Accepted += t.Accepted
			sum.Requests += t.Requests
			sum.Ended += t.Ended
			sum.Hijacked += t.Hijacked
			sum.Lingering += t.Lingering
			for _, p := range t.Places[:min(len(t.Places), 1)] {
				sum.Places[0].Sent += p.Sent
				sum.Places[0].Got += p.Got
			}
		})
	}
	return sum
}

package conn_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
)

// tallied adds up what the loops of s have counted; of the routes only the first one.
func tallied(s *site) (sum conn.Stats) {
	s.T.Helper()
	sum.Routes = make([]conn.RouteStats, 1)
	for _, l := range s.All {
		loops.On(s.T, l, func(l *loop.Loop) {
			t := s.Stats(l)
			sum.Accepted += t.Accepted
			sum.Requests += t.Requests
			sum.Ended += t.Ended
			sum.Hijacked += t.Hijacked
			sum.Lingering += t.Lingering
			for _, p := range t.Routes[:min(len(t.Routes), 1)] {
				sum.Routes[0].Sent += p.Sent
				sum.Routes[0].Got += p.Got
			}
		})
	}
	return sum
}

// TestRefusedCountOnce: a connection that gets 503 and is then read to its end is a refused one,
// and not a lingering one as well.
func TestRefusedCountOnce(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, release := make(chan struct{}), new(loop.Promise[int])
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxConnections: 1},
			Handler: func(req *conn.Request, w *conn.Response) int {
				close(entered)
				_, _ = req.AwaitAny(-1, release)
				return hello(req, w)
			}})
		busy := s.Dial()
		busy.Send(get)
		<-entered
		s.Settle() // until its thread waits, its connection counts as one that is idle
		c := s.Dial()
		if a := c.Do("GET", get); a.StatusCode != 503 {
			t.Errorf("%s", a.Status)
		}
		if n := s.Refusing(); n != 1 {
			t.Errorf("%d are being refused", n)
		}
		if n := tallied(s).Lingering; n != 0 {
			t.Errorf("%d linger while one is being refused", n)
		}
		c.Close()
		s.Settled("the refused one is gone", func(*loop.Loop) bool { return s.Refusing() == 0 })
		release.Resolve(0)
		busy.Answer("GET")
		busy.Send("BAD\r\n")
		busy.Answer("GET")
		if n := tallied(s).Lingering; n != 1 {
			t.Errorf("%d linger behind a 400", n)
		}
		busy.Close()
		s.Idle()
		if n := tallied(s).Lingering; n != 0 {
			t.Errorf("%d linger in the end", n)
		}
	}, plain, direct, several)
}

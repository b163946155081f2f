package stream_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
	"golang.org/x/sys/unix"
)

// TestSpendInCrowd: work that moves no bytes, such as pipelined requests, makes way for others as
// seldom in a crowd as outside of it, and does make way.
func TestSpendInCrowd(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		others, over := 0, false
		for range 40 {
			l.Go(func(th *loop.Thread) {
				for !over {
					for at := time.Now(); time.Since(at) < 100*time.Microsecond; {
					}
					others++
					th.Yield()
				}
			})
		}
		l.Go(func(th *loop.Thread) {
			defer func() { over = true }()
			a, b := sockets(t, "unix")
			defer unix.Close(b)
			s := must.Get(stream.New(l, a))(t)
			defer s.Close()
			for !l.Crowded() {
				th.Yield()
			}
			before, pieces := others, 0
			for ; others == before && pieces < 1000; pieces++ {
				s.Spend()
			}
			if most := stream.TurnBudget / (4 << 10); pieces != most {
				t.Errorf("%d pieces of work before others had their turn, want %d", pieces, most)
			}
		})
	})
}

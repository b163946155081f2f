package loop_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/loop"
)

// TestBroadcastInCrowd: those of a Broadcast that were told, and for whom the turn had no time, run
// before the crowd goes on.
func TestBroadcastInCrowd(t *testing.T) {
	run(t, func(t *testing.T, l *loop.Loop) {
		const (
			few, many = 3, 16 // the turn ends within the second part of the many
			members   = few + many
			crowd     = 1000
			toil      = 500 * time.Microsecond
		)
		work := func(d time.Duration) {
			for begin := time.Now(); time.Since(begin) < d; {
			}
		}
		ran, first, last, left := 0, 0, 0, members
		var waiting []*loop.Thread
		for range members {
			l.Go(func(th *loop.Thread) {
				waiting = append(waiting, th)
				_, _ = th.AwaitAny(-1, &notice{})
				if left == members {
					first = ran
				}
				left--
				last = ran
				work(toil)
			})
		}
		l.Go(func(th *loop.Thread) {
			for range crowd {
				l.Go(func(th *loop.Thread) {
					for left > 0 {
						work(20 * time.Microsecond)
						ran++
						th.Yield()
					}
				})
			}
			th.Yield()
			for _, part := range [][]*loop.Thread{waiting[:few], waiting[few:]} {
				(&loop.Broadcast{Next: func() (next *loop.Thread) {
					if len(part) > 0 {
						next, part = part[0], part[1:]
					}
					return next
				}}).Begin(l)
			}
		})
		mustRun(t, l)
		if n := last - first; n > crowd/2 {
			t.Errorf("%d of the crowd ran between the first member and the last", n)
		}
	})
}

// notice is a source that is ready when its thread was woken.
type notice struct{ asked bool }

func (n *notice) Watch(*loop.Thread) error { return nil }
func (n *notice) Ready() bool {
	was := n.asked
	n.asked = true
	return was
}
func (n *notice) Unwatch(*loop.Thread) {}

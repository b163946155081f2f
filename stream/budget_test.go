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
			for !l.Layer().Overloaded() {
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

// TestDueBeforeRead: a thread that has moved its share lets others have their turn before its next
// read. Behind the read, what was read would lie in memory meanwhile: a crowd of threads would have
// a buffer each.
func TestDueBeforeRead(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		others, over := 0, false
		l.Go(func(th *loop.Thread) {
			for !over {
				others++
				th.Yield()
			}
		})
		l.Go(func(th *loop.Thread) {
			defer func() { over = true }()
			a, b := sockets(t, "unix")
			defer unix.Close(b)
			s := must.Get(stream.New(l, a))(t)
			defer s.Close()
			buf, first := make([]byte, 8<<10), others
			for turns := 0; turns < 8; {
				_, _ = unix.Write(b, buf) // it may be full
				if turns%2 == 1 && s.Due() {
					if s.GiveWay(); s.Due() {
						t.Fatal("GiveWay gives no way")
					}
					turns++
				}
				due, before := s.Due(), others
				switch _, err := s.TryRead(buf); {
				case !due && others != before:
					t.Fatal("others had their turn behind a read")
				case err == stream.ErrWouldBlock: // said by the invariants tag
					must.Do(t, s.AwaitRead(-1))
				case err != nil:
					t.Fatal(err)
				case due && s.Due():
					t.Fatal("no turn was given before a read")
				case due:
					turns++
				}
			}
			if others == first {
				t.Error("others had no turn")
			}
		})
	})
}

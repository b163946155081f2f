package pubsub_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"golang.org/x/sys/unix"
)

// toil takes as long as a delivery to a socket does at least.
const toil = 20 * time.Microsecond

func work() {
	for begin := time.Now(); time.Since(begin) < toil; {
	}
}

// members starts n threads of the i-th loop that call heard for each message, and returns when all
// wait.
func members(t testing.TB, ls *loops.Loops, i, n int, topic *pubsub.Topic, heard func(n int)) {
	begun := 0
	for range n {
		ls.Go(i, func(th *loop.Thread) {
			number := begun
			begun++
			sub := topic.Subscribe(th, pubsub.Options{})
			for {
				if _, err := sub.Receive(-1); err != nil {
					return
				}
				heard(number)
			}
		})
	}
	for all := false; !all; {
		loops.On(t, ls.All[i], func(*loop.Loop) { all = begun == n })
	}
}

// While thousands get a message, a message to a few passes them, and so do an event and a thread
// that yields. Deliveries are counted, and turns.
func TestHotRoomLetsOthersPass(t *testing.T) {
	const (
		hot, quiet = 2000, 5
		perTurn    = int(time.Millisecond/toil) + 32 // a turn's share, and what is not measured of it
	)
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		l := ls.All[0]
		ran, mid, other, yields := 0, 0, -1, 0
		var atQuiet []int
		var turn, turnAtQuiet int64
		done := make(chan struct{})
		var promise loop.Promise[struct{}]
		members(t, ls, 0, quiet, hub.Topic("quiet"), func(int) {
			atQuiet = append(atQuiet, ran)
			turnAtQuiet = l.Stats().Waits
		})
		members(t, ls, 0, hot, hub.Topic("hot"), func(int) {
			work()
			switch ran++; ran {
			case hot / 2:
				if len(atQuiet) != quiet || slices.Max(atQuiet) > 32 {
					t.Errorf("quiet members were told after so many of the hot ones: %v", atQuiet)
				}
				atQuiet, mid, turn = nil, ran, l.Stats().Waits
				publish(hub.Topic("quiet"), "b")
				promise.Resolve(struct{}{})
			case hot:
				close(done)
			}
		})
		ls.Go(0, func(th *loop.Thread) {
			_, _ = promise.Await(th, -1)
			other = ran
		})
		loops.On(t, l, func(l *loop.Loop) {
			publish(hub.Topic("hot"), "a")
			publish(hub.Topic("quiet"), "a")
			l.Go(func(th *loop.Thread) {
				for last := 0; ran < hot; yields++ {
					if th.Yield(); ran-last > perTurn {
						t.Errorf("%d deliveries between two turns of a thread", ran-last)
					}
					last = ran
				}
			})
		})
		<-done
		loops.On(t, l, func(*loop.Loop) {
			if len(atQuiet) != quiet || slices.Max(atQuiet)-mid > perTurn || turnAtQuiet-turn > 2 {
				t.Errorf("quiet members were told after %v, published after %d; %d turns passed",
					atQuiet, mid, turnAtQuiet-turn)
			}
			if other < mid || other-mid > perTurn {
				t.Errorf("another thread was told after %d, which was ready after %d", other, mid)
			}
		})
	})
}

// Many rooms that are full of messages take turns.
func TestHotRoomsTakeTurns(t *testing.T) {
	const rooms, members1, perRoom = 5, 100, 2
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		var ran [rooms]int
		most := 0
		left, done := rooms*members1*perRoom, make(chan struct{})
		for i := range ran {
			members(t, ls, 0, members1, hub.Topic(string(rune('a'+i))), func(int) {
				ran[i]++
				if slices.Max(ran[:]) < members1 {
					most = max(most, slices.Max(ran[:])-slices.Min(ran[:]))
				}
				if left--; left == 0 {
					close(done)
				}
			})
		}
		loops.On(t, ls.All[0], func(*loop.Loop) {
			for i := range ran {
				publish(hub.Topic(string(rune('a'+i))), "x")
			}
		})
		loops.On(t, ls.All[0], func(*loop.Loop) {
			for i := range ran {
				publish(hub.Topic(string(rune('a'+i))), "x")
			}
		})
		<-done
		loops.On(t, ls.All[0], func(*loop.Loop) {
			if most > 16 {
				t.Errorf("a room was %d deliveries ahead of another", most)
			}
		})
	})
}

// BenchmarkQuietRoom is a message to 1,000 members of a loop, each of whom takes 20 µs for it, and
// one to a member of a quiet room 2 ms later.
func BenchmarkQuietRoom(b *testing.B) {
	var hub pubsub.Hub
	ls := loops.Start(b, modes.Mode{Handoff: coro.Direct, Loops: 1}, nil, nil)
	const hot = 1000
	left, all, heard := 0, make(chan struct{}, 1), make(chan time.Time, 1)
	members(b, ls, 0, hot, hub.Topic("hot"), func(int) {
		work()
		if left++; left%hot == 0 {
			all <- struct{}{}
		}
	})
	members(b, ls, 0, 1, hub.Topic("quiet"), func(int) { heard <- time.Now() })
	var late []time.Duration
	for b.Loop() {
		publish(hub.Topic("hot"), "x")
		time.Sleep(2 * time.Millisecond)
		began := time.Now()
		publish(hub.Topic("quiet"), "x")
		late = append(late, (<-heard).Sub(began))
		<-all
	}
	slices.Sort(late)
	b.ReportMetric(late[len(late)*99/100].Seconds()*1000, "p99-ms")
	b.ReportMetric(late[len(late)/2].Seconds()*1000, "p50-ms")
	ls.Stop(0)
}

// While thousands get a message, and a few others get many, the loop takes all events that are
// there, as if it had nothing else to do.
func TestEventsBesideHotRoom(t *testing.T) {
	const hot, quiet, events = 2000, 5, 64
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		l := ls.All[0]
		var fds [events]int
		for i := range fds {
			fds[i] = must.Get(unix.Eventfd(0, unix.EFD_NONBLOCK))(t)
			defer unix.Close(fds[i])
		}
		ran, came := 0, 0
		var turn, turns int64
		done := make(chan struct{})
		for _, fd := range fds {
			ls.Go(0, func(th *loop.Thread) {
				if err := th.AwaitRead(-1, fd); err != nil {
					t.Error(err)
				}
				if came++; came == events {
					turns = l.Stats().Waits - turn
				}
			})
		}
		members(t, ls, 0, quiet, hub.Topic("quiet"), func(int) {})
		members(t, ls, 0, hot, hub.Topic("hot"), func(int) {
			work()
			publish(hub.Topic("quiet"), "x")
			switch ran++; ran {
			case hot / 4:
				turn = l.Stats().Waits
				for _, fd := range fds {
					_ = must.Get(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))(t)
				}
			case hot:
				close(done)
			}
		})
		publish(hub.Topic("hot"), "x")
		<-done
		ls.Settled("all events have come", func(*loop.Loop) bool { return came == events })
		ls.On(func(*loop.Loop) {
			if turns > 8 {
				t.Errorf("%d events have taken %d turns", events, turns)
			}
		})
	})
}

package pubsub_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"golang.org/x/sys/unix"
)

// A message to 10,000 members on two loops is framed once, and costs one wake-up of each loop.
func TestTenThousandMembers(t *testing.T) {
	const messages = 2
	many := 10000
	if race.Enabled {
		many = 1000
	}
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("room")
		var made, heard, posts atomic.Int64
		framed := pubsub.Shared(func(data []byte) *int { made.Add(1); return new(int) })
		all := make(chan struct{}, messages)
		begun := make(chan struct{}, many)
		for i := range many {
			ls.Go(i, func(th *loop.Thread) {
				sub := topic.Subscribe(th, pubsub.Options{})
				begun <- struct{}{}
				for {
					m, err := sub.Receive(-1)
					if err != nil {
						return
					}
					framed(m)
					if heard.Add(1)%int64(many) == 0 {
						all <- struct{}{}
					}
				}
			})
		}
		for range many {
			<-begun
		}
		ls.Settle()
		pubsub.CountPosts(&hub, "room", &posts)
		for range messages {
			publish(topic, "x")
			<-all
			ls.Settle()
		}
		if made.Load() != messages || posts.Load() != 2*messages {
			t.Errorf("%d frames, %d posts for %d messages", made.Load(), posts.Load(), messages)
		}
	})
}

// Whoever has just ended is told nothing: while a message goes round, members end others that are
// still to be told of it, and themselves.
func TestEndedBeforeTold(t *testing.T) {
	const many = 600
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		var hub pubsub.Hub
		topic := hub.Topic("room")
		var threads [many]*loop.Thread
		var subs [many]*pubsub.Subscription
		var heard [many]int
		over, left, begun := make(chan struct{}), many, 0
		ls.On(func(l *loop.Loop) {
			for i := range many {
				member := func(th *loop.Thread) error {
					defer func() {
						if left--; left == 0 {
							close(over)
						}
					}()
					subs[i] = topic.Subscribe(th, pubsub.Options{})
					begun++
					for {
						if _, err := subs[i].Receive(-1); err != nil {
							if i%3 == 1 && err != net.ErrClosed || i%3 == 2 && err != loop.ErrCanceled {
								t.Errorf("%d: %v", i, err)
							}
							return nil
						}
						heard[i]++
						switch {
						case i%3 > 0:
						case heard[i] == 1: // the next ones are still to be told
							subs[i+1].Unsubscribe()
							threads[i+2].Cancel()
						default:
							return nil
						}
					}
				}
				threads[i] = l.Go(func(th *loop.Thread) { th.Go(member) })
			}
		})
		ls.Settled("all are subscribed", func(*loop.Loop) bool { return begun == many })
		ls.Settle()
		publish(topic, "a")
		ls.Settle()
		publish(topic, "b")
		select {
		case <-over:
		case <-time.After(limit):
		}
		ls.On(func(*loop.Loop) {
			if n, _, _ := pubsub.Subscribers(&hub, "room"); n > 0 || left > 0 {
				t.Errorf("%d are subscribed, %d threads are left", n, left)
			}
			for i, n := range heard {
				if i%3 == 0 && n != 2 || n > 2 {
					t.Errorf("%d has heard %d messages", i, n)
				}
			}
		})
		publish(topic, "c") // nobody is left
	})
}

// A member whose peer reads nothing waits in its write, and costs the others nothing: neither their
// messages, nor memory beyond the topic's.
func TestMemberThatReadsNothing(t *testing.T) {
	const messages, size, readers = 2000, 4 << 10, 10
	handoffs(t, 1, func(t *testing.T, ls *loops.Loops) {
		hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 256 << 10}}
		topic := hub.Topic("room")
		fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0))(t)
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		var stuck *pubsub.Subscription
		written, got := 0, make(chan int, readers)
		begun := make(chan struct{}, readers+1)
		ls.Go(0, func(th *loop.Thread) {
			stuck = topic.Subscribe(th, pubsub.Options{})
			begun <- struct{}{}
			for {
				m, err := stuck.Receive(-1)
				if err != nil {
					return
				}
				for p := m.Data; len(p) > 0; {
					n, err := th.WriteFD(-1, fds[0], p)
					if err != nil {
						return
					}
					p = p[n:]
				}
				written++
			}
		})
		for range readers {
			ls.Go(0, func(th *loop.Thread) {
				sub := topic.Subscribe(th, pubsub.Options{})
				begun <- struct{}{}
				for n := 0; ; n++ {
					if n == messages {
						got <- sub.Dropped()
					}
					if _, err := sub.Receive(-1); err != nil {
						return
					}
				}
			})
		}
		for range readers + 1 {
			<-begun
		}
		ls.Go(0, func(th *loop.Thread) {
			for i := range messages {
				topic.Publish(make([]byte, size))
				if bytes := pubsub.Bytes(&hub); bytes > 256<<10+size+128 {
					t.Errorf("%d bytes are held", bytes)
				}
				if i%8 == 7 {
					th.Yield()
					th.Yield() // the others read
				}
			}
		})
		for range readers {
			select {
			case n := <-got:
				if n > 0 {
					t.Errorf("a reader has lost %d messages", n)
				}
			case <-time.After(limit):
				t.Fatal("a reader has not got all")
			}
		}
		ls.On(func(*loop.Loop) {
			lost := stuck.Dropped()
			if written+1+lost+64 < messages || lost == 0 {
				t.Errorf("%d were written, and %d lost", written, lost)
			}
		})
	})
}

package pubsub_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

func TestMain(m *testing.M) { leak.Main(m) }

// limit is for what must come.
const limit = 20 * time.Second

// handoffs runs f with loops of each kind.
func handoffs(t *testing.T, n int, f func(t *testing.T, ls *loops.Loops)) {
	for _, h := range []coro.Handoff{coro.Channel, coro.Direct} {
		t.Run(h.String(), func(t *testing.T) {
			f(t, loops.Start(t, modes.Mode{Handoff: h, Loops: n}, nil, nil))
		})
	}
}

// Publishers of all kinds at once: every subscriber gets all, and what is of one publisher in
// order.
func TestOrderOfEachPublisher(t *testing.T) {
	const publishers, each, subscribers = 6, 200, 30
	handoffs(t, 3, func(t *testing.T, ls *loops.Loops) {
		hub := pubsub.Hub{Limits: pubsub.Limits{TopicBytes: 1 << 30}}
		var subscribed, done sync.WaitGroup
		var all loop.Promise[struct{}] // have subscribed
		subscribed.Add(subscribers)
		done.Add(subscribers)
		for i := range subscribers {
			ls.Go(i, func(th *loop.Thread) {
				defer done.Done()
				topic := hub.Topic("room")
				sub := topic.Subscribe(th,
					pubsub.Options{Queue: pubsub.MaxQueue, Policy: pubsub.Policy(i % 3)})
				subscribed.Done()
				_, _ = all.Await(th, limit)
				next := make([]int, publishers)
				mine := 0
				for n := range publishers * each {
					if i == 0 && mine < each { // a publisher that is itself subscribed
						topic.Publish(fmt.Appendf(nil, "0 %d", mine))
						mine++
					}
					m, err := sub.Receive(-1)
					if err != nil {
						t.Errorf("subscriber %d has %d messages: %v", i, n, err)
						return
					}
					who, number, _ := strings.Cut(string(m.Data), " ")
					p, _ := strconv.Atoi(who)
					if number != strconv.Itoa(next[p]) {
						t.Errorf("subscriber %d: %s of publisher %d, want %d", i, number, p,
							next[p])
						return
					}
					next[p]++
				}
				if m := sub.Next(); m != nil || sub.Dropped() != 0 {
					t.Errorf("subscriber %d: %q is one too many, %d dropped", i, m.Data,
						sub.Dropped())
				}
			})
		}
		subscribed.Wait()
		all.Resolve(struct{}{})
		for p := 1; p < publishers; p++ {
			publish := func(pause func()) {
				topic := hub.Topic("room")
				for n := range each {
					topic.Publish(fmt.Appendf(nil, "%d %d", p, n))
					if n%10 == 0 {
						pause()
					}
				}
			}
			if p%2 == 0 {
				go publish(func() {})
			} else {
				ls.Go(p, func(th *loop.Thread) { publish(th.Yield) })
			}
		}
		done.Wait()
	})
}

// Subscribers come and go during publishing: what they get begins with their history and has no
// gap. The same holds for what follows the last message that they know.
func TestHistoryAndWhatFollowsAreOne(t *testing.T) {
	handoffs(t, 2, func(t *testing.T, ls *loops.Loops) {
		hub := pubsub.Hub{Limits: pubsub.Limits{History: pubsub.MaxQueue, TopicBytes: 1 << 30,
			IdleBytes: 1 << 30}}
		stop := make(chan struct{})
		var publishing, done sync.WaitGroup
		publishing.Go(func() {
			topic := hub.Topic("room")
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				topic.Publish(strconv.AppendInt(nil, int64(n), 10))
				if n%100 == 0 { // or no other goroutine gets to run
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
		done.Add(8)
		for i := range 8 {
			ls.Go(i, func(th *loop.Thread) {
				defer done.Done()
				last, lastID := -1, ""
				for round := range 50 {
					o := pubsub.Options{Queue: pubsub.MaxQueue, History: round % 20,
						Policy: pubsub.Policy(i % 3)}
					after := round%3 == 2
					if after {
						o.After = lastID
					}
					sub := hub.Topic("room").Subscribe(th, o)
					for n := range 20 {
						m, err := sub.Receive(-1)
						if err != nil {
							t.Error(err)
							return
						}
						number, _ := strconv.Atoi(string(m.Data))
						if number != last+1 && (n > 0 || after) {
							t.Errorf("%d after %d, message %d of %+v", number, last, n, o)
							return
						}
						last, lastID = number, m.ID
					}
					sub.Unsubscribe()
					th.Yield()
				}
			})
		}
		done.Wait()
		close(stop)
		publishing.Wait()
	})
}

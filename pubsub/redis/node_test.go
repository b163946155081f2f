package redis_test

import (
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

const limit = wait.Patience // for what must come

// node is what a process is: a hub, its engine, and a loop.
type node struct {
	t       testing.TB
	hub     pubsub.Hub
	engine  *redis.Engine
	loops   *loops.Loops
	stopped bool
	status  *follower
	unsent  int
}

func startNode(t testing.TB, url string) *node {
	t.Helper()
	if testing.Verbose() {
		return startNodeLogging(t, url, testWriter{t})
	}
	return startNodeLogging(t, url, io.Discard)
}

func startNodeLogging(t testing.TB, url string, log io.Writer) *node {
	t.Helper()
	n := &node{t: t, loops: loops.Start(t, modes.Direct, nil, nil)}
	var err error
	if n.engine, err = redis.Start(&n.hub, url,
		slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.stop(0) })
	n.status = n.follow(n.hub.Status(), pubsub.Options{History: 1}) // it may have changed already
	return n
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// stop ends the node, once.
func (n *node) stop(grace time.Duration) {
	if n.stopped {
		return
	}
	n.stopped = true
	n.loops.Stop(0)
	n.unsent = n.engine.Close(grace)
}

// acknowledged waits until the broker has everything.
func (n *node) acknowledged() {
	n.t.Helper()
	wait.Until(n.t, "the broker has everything", func() bool { return n.engine.Pending() == 0 })
}

// follower is a subscription whose messages are received as they come.
type follower struct {
	t        testing.TB
	messages chan *pubsub.Message
	done     chan struct{} // close it: the subscription ends
	dropped  atomic.Int64  // messages that the subscription has lost, as of the last that it got
	node     *node
}

// follow subscribes. Unless o says otherwise the subscription's queue holds all of a test's
// messages: most tests publish faster than a loop without a processor can read, and what is missing
// then must be the engine's fault.
func (n *node) follow(topic *pubsub.Topic, o pubsub.Options) *follower {
	n.t.Helper()
	if o.Queue == 0 {
		o.Queue = pubsub.MaxQueue
	}
	f := &follower{t: n.t, messages: make(chan *pubsub.Message, pubsub.MaxQueue),
		done: make(chan struct{}), node: n}
	subscribed := make(chan struct{})
	n.loops.Go(0, func(th *loop.Thread) {
		sub, done := topic.Subscribe(th, o), loop.FromChan(f.done)
		close(subscribed)
		for {
			if i, err := th.AwaitAny(-1, sub, done); i != 0 || err != nil {
				return
			}
			for m := sub.Next(); m != nil; m = sub.Next() {
				f.messages <- m
			}
			f.dropped.Store(int64(sub.Dropped()))
			if sub.Err() != nil {
				return
			}
		}
	})
	<-subscribed
	return f
}

// next returns the data of the next message.
func (f *follower) next() string {
	f.t.Helper()
	select {
	case m := <-f.messages:
		return string(m.Data)
	case <-time.After(limit):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		f.t.Fatalf(
			"nothing comes; lost by the subscription: %d, by the engine: %d, pending %d, carried %v\n%s",
			f.dropped.Load(), f.node.engine.Lost(), f.node.engine.Pending(), f.node.hub.Carried(),
			stacks)
		return ""
	}
}

// expect reads messages that must come, in this order.
func (f *follower) expect(want ...string) {
	f.t.Helper()
	for i, w := range want {
		if got := f.next(); got != w {
			f.t.Fatalf("message %d: %q, want %q", i, got, w)
		}
	}
}

// expectEnd is expect for a subscription with history, which has come late to a stream. It reads
// until the stream's last message and all of own have come. Of the stream at least the last ones
// must come, in order: what was published within the time that the broker takes to tell its own is
// news, which comes behind the history, and then the history reaches back further. What the process
// publishes itself it hears at once, before or behind such news.
func (f *follower) expectEnd(stream []string, least int, own ...string) {
	f.t.Helper()
	var got []string
	for missing := append(slices.Clone(own), stream[len(stream)-1]); len(missing) > 0; {
		m := f.next()
		if i := slices.Index(missing, m); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		}
		if !slices.Contains(own, m) {
			got = append(got, m)
		}
	}
	if len(got) < least || len(got) > len(stream) ||
		!slices.Equal(got, stream[len(stream)-len(got):]) {
		f.t.Fatalf("got %q, want the end of %q", got, stream)
	}
}

// hears publishes to a topic of the follower's own process, and waits for each part to arrive: a
// publisher itself waits for no subscriber.
func (f *follower) hears(topic *pubsub.Topic, texts ...string) {
	f.t.Helper()
	for part := range slices.Chunk(texts, 50) {
		publish(topic, part...)
		f.expect(part...)
	}
}

// until reads up to a message that must come.
func (f *follower) until(last string) {
	f.t.Helper()
	for f.next() != last {
	}
}

// quiet reports what has come and was not expected.
func (f *follower) quiet() {
	f.t.Helper()
	select {
	case m := <-f.messages:
		f.t.Errorf("one too many: %q", m.Data)
	default:
	}
}

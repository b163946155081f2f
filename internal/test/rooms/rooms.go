// Package rooms tests an engine of pubsub: nodes, which are processes in one, and followers of
// their topics.
//
//	rooms.go    Node, Follower: a process of a room, and who listens in it
//	process.go  a Node in a process of its own
//	wire.go     Wire: the way to a broker, which can be cut and slowed down
//	cases.go    tests that each engine passes
//	presence.go a test of who is there, for each engine
//	slow.go     a benchmark of a room with a slow member
package rooms

import (
	"cmp"
	"fmt"
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
)

// Limit is for what must come.
const Limit = wait.Patience

// Engine is what the engines and their tests have.
type Engine interface {
	pubsub.Engine
	Close(grace time.Duration) (unsent int)
	Lost() int
	Pending() int // messages that the broker has not acknowledged
}

// Node is what a process is: a hub, its engine, and a loop.
type Node struct {
	Hub    pubsub.Hub
	Engine Engine
	Loops  *loops.Loops
	Status *Follower // of Hub.Status
	Unsent int       // once it is stopped

	t       testing.TB
	stopped bool
}

// Start starts a node with the engine that start makes. Its log goes to log; nil is that of the
// test, if it is verbose.
func Start(t testing.TB, log io.Writer,
	start func(*pubsub.Hub, *slog.Logger) (Engine, error)) *Node {
	t.Helper()
	if log == nil {
		if log = io.Discard; testing.Verbose() {
			log = testWriter{t}
		}
	}
	n := &Node{t: t, Loops: loops.Start(t, modes.Direct, nil, nil)}
	var err error
	if n.Engine, err = start(&n.Hub, slog.New(slog.NewTextHandler(log, nil))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Stop(0) })
	n.Status = n.Follow(n.Hub.Status(), pubsub.Options{History: 1}) // it may have changed already
	return n
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Stop ends the node, once.
func (n *Node) Stop(grace time.Duration) {
	if n.stopped {
		return
	}
	n.stopped = true
	n.Loops.Stop(0)
	n.Unsent = n.Engine.Close(grace)
}

// Acknowledged waits until the broker has everything.
func (n *Node) Acknowledged() {
	n.t.Helper()
	wait.Until(n.t, "the broker has everything", func() bool { return n.Engine.Pending() == 0 })
}

// Follower is a subscription whose messages are received as they come.
type Follower struct {
	t        testing.TB
	messages chan *pubsub.Message
	Done     chan struct{} // close it: the subscription ends
	dropped  atomic.Int64  // messages that the subscription has lost, as of the last that it got
	err      atomic.Value  // why it has ended
	node     *Node
}

// Dropped returns how many messages the subscription has missed, as of the last that it got.
func (f *Follower) Dropped() int { return int(f.dropped.Load()) }

// Err returns why it has ended, or nil.
func (f *Follower) Err() error {
	err, _ := f.err.Load().(error)
	return err
}

// Source is a topic or a pattern.
type Source interface {
	Subscribe(*loop.Thread, pubsub.Options) *pubsub.Subscription
}

// Follow subscribes. Unless o says otherwise the subscription's queue holds all of a test's
// messages: most tests publish faster than a loop without a processor can read, and what is missing
// then must be the engine's fault.
func (n *Node) Follow(topic Source, o pubsub.Options) *Follower {
	n.t.Helper()
	o.Queue = cmp.Or(o.Queue, pubsub.MaxQueue)
	f := &Follower{t: n.t, messages: make(chan *pubsub.Message, pubsub.MaxQueue),
		Done: make(chan struct{}), node: n}
	subscribed := make(chan struct{})
	n.Loops.Go(0, func(th *loop.Thread) {
		sub, done := topic.Subscribe(th, o), loop.FromChan(f.Done)
		close(subscribed)
		for {
			if i, err := th.AwaitAny(-1, sub, done); i != 0 || err != nil {
				return
			}
			for m := sub.Next(); m != nil; m = sub.Next() {
				f.messages <- m
			}
			f.dropped.Store(int64(sub.Dropped()))
			if err := sub.Err(); err != nil {
				f.err.Store(err)
				return
			}
		}
	})
	<-subscribed
	return f
}

// Next returns the data of the next message.
func (f *Follower) Next() string {
	f.t.Helper()
	return string(f.NextMessage().Data)
}

// NextMessage returns the next message.
func (f *Follower) NextMessage() *pubsub.Message {
	f.t.Helper()
	select {
	case m := <-f.messages:
		return m
	case <-time.After(Limit):
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		f.t.Fatalf(
			"nothing comes; lost by the subscription: %d, by the engine: %d, pending %d, carried %v\n%s",
			f.dropped.Load(), f.node.Engine.Lost(), f.node.Engine.Pending(), f.node.Hub.Carried(),
			stacks)
		return nil
	}
}

// Expect reads messages that must come, in this order.
func (f *Follower) Expect(want ...string) {
	f.t.Helper()
	for i, w := range want {
		if got := f.Next(); got != w {
			f.t.Fatalf("message %d: %q, want %q", i, got, w)
		}
	}
}

// ExpectEnd is Expect for a subscription with history, which has come late to a stream. It reads
// Until the stream's last message and all of own have come. Of the stream at least the last ones
// must come, in order: what was published within the time that the broker takes to tell its own is
// news, which comes behind the history, and then the history reaches back further. What the process
// publishes itself it hears at once, before or behind such news.
func (f *Follower) ExpectEnd(stream []string, least int, own ...string) {
	f.t.Helper()
	var got []string
	for missing := append(slices.Clone(own), stream[len(stream)-1]); len(missing) > 0; {
		m := f.Next()
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

// Hears publishes to a topic of the follower's own process, and waits for each part to arrive: a
// publisher itself waits for no subscriber.
func (f *Follower) Hears(topic *pubsub.Topic, texts ...string) {
	f.t.Helper()
	for part := range slices.Chunk(texts, 50) {
		Publish(topic, part...)
		f.Expect(part...)
	}
}

// Until reads up to a message that must come.
func (f *Follower) Until(last string) {
	f.t.Helper()
	for f.Next() != last {
	}
}

// Quiet reports what has come and was not expected.
func (f *Follower) Quiet() {
	f.t.Helper()
	select {
	case m := <-f.messages:
		f.t.Errorf("one too many: %q", m.Data)
	default:
	}
}

// Collect reads the next n messages.
func (f *Follower) Collect(n int) (texts []string) {
	f.t.Helper()
	for range n {
		texts = append(texts, f.Next())
	}
	return texts
}

// Publish publishes texts.
func Publish(topic *pubsub.Topic, texts ...string) {
	for _, text := range texts {
		topic.Publish([]byte(text))
	}
}

// Numbered are texts of the prefix and a number.
func Numbered(prefix string, from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprintf("%s%d", prefix, i))
	}
	return texts
}

// CheckOrder checks that all numbers of each prefix, which is one letter, are there, once and in
// order.
func CheckOrder(t testing.TB, texts []string, want map[string][2]int) {
	t.Helper()
	for _, text := range texts {
		w := want[text[:1]]
		if text != fmt.Sprintf("%s%d", text[:1], w[0]) {
			t.Fatalf("%q, want number %d", text, w[0])
		}
		w[0]++
		want[text[:1]] = w
	}
	for prefix, w := range want {
		if w[0] != w[1] {
			t.Errorf("%s: up to %d, want %d", prefix, w[0], w[1])
		}
	}
}

// ahead is how many messages Traffic publishes before the broker has them: fewer than an engine or
// a broker keeps, however long the broker is away on a busy machine.
const ahead = 1000

// Traffic publishes numbers with a prefix to a topic, one a millisecond at most, until it is
// stopped, and returns how many.
func (n *Node) Traffic(topic, prefix string) (stop func() int) {
	stopped, ended := make(chan struct{}), make(chan int)
	go func() {
		for i := 0; ; {
			select {
			case <-stopped:
				ended <- i
				return
			case <-time.After(time.Millisecond):
				if n.Engine.Pending() < ahead {
					Publish(n.Hub.Topic(topic), fmt.Sprint(prefix, i))
					i++
				}
			}
		}
	}()
	return func() int { close(stopped); return <-ended }
}

// All returns what has come so far.
func (f *Follower) All() (texts []string) {
	for {
		select {
		case m := <-f.messages:
			texts = append(texts, string(m.Data))
		default:
			return texts
		}
	}
}

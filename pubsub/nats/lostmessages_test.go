package nats_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

func roomOf(n *rooms.Node) rooms.Source    { return n.Hub.Topic("room.1") }
func patternOf(n *rooms.Node) rooms.Source { return n.Hub.Pattern("room.*") }

// A slow subscriber costs itself.
func TestSlowSubscriber(t *testing.T) {
	for name, to := range map[string]func(*rooms.Node) rooms.Source{"topic": roomOf,
		"pattern": patternOf} {
		t.Run(name, func(t *testing.T) {
			b := startBroker(t)
			rooms.SlowSubscriber(t, startNode(t, b.url()), startNode(t, b.url()), to)
		})
	}
}

// What is lost on the way is counted, wherever that was.
func TestFlood(t *testing.T) {
	for name, to := range map[string]func(*rooms.Node) rooms.Source{"topic": roomOf,
		"pattern": patternOf} {
		t.Run(name, func(t *testing.T) {
			b := startBroker(t)
			rooms.Flood(t, startNode(t, b.url()), startNode(t, b.url()), to)
		})
	}
}

// A stream that keeps fewer messages than a process has missed. Nothing is acknowledged by topics
// and patterns, so the server drops what they have not read, as it drops what they have. What went
// unread counts as dropped, ends a subscriber with Disconnect, and is logged once.
func TestStreamKeepsFew(t *testing.T) {
	const missed, kept = 500, 100
	b := startBroker(t)
	js := must.Get(jetstream.New(b.client()))(t)
	config := nats.Config("lwango", 1)
	config.MaxMsgs = kept
	must.Get(js.CreateStream(context.Background(), config))(t)
	w := rooms.StartWire(t, b.addr())
	log := new(logtext.Buffer)
	one, two := startNode(t, b.url()), startNodeLogging(t, "nats://"+w.Addr(), log)
	room := one.Hub.Topic("room.1")
	all := []*rooms.Follower{two.Follow(roomOf(two), pubsub.Options{}),
		two.Follow(patternOf(two), pubsub.Options{})}
	strict := two.Follow(roomOf(two), pubsub.Options{Policy: pubsub.Disconnect})
	for _, f := range append(all, strict) {
		rooms.Heard(t, one, "room.1", f)
	}
	// What one has heard may still be on its way to another: it must not count as lost.
	publish(room, "last")
	for _, f := range append(all, strict) {
		f.Until("last")
	}
	w.Cut(true)
	two.Status.Expect("local")
	publish(room, numbered("a", 0, missed)...)
	one.Acknowledged()
	w.Cut(false)
	for i, f := range all {
		f.Until(numbered("a", missed-kept, missed)[0]) // behind what was for others to hear
		f.Expect(numbered("a", missed-kept+1, missed)...)
		f.Quiet()
		wait.Until(t, "the gap is counted", func() bool { return f.Dropped() > 0 })
		if n := f.Dropped(); n != missed-kept {
			t.Errorf("follower %d: %d dropped", i, n)
		}
	}
	wait.Until(t, "the strict one has ended", func() bool { return strict.Err() == pubsub.ErrLagged })
	if n := strings.Count(log.String(), "lost before they were read"); n != 2 { // topic and pattern
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// BenchmarkSlowMember is a room with and without a member that is slow: -benchtime 2000x is ten
// seconds.
func BenchmarkSlowMember(b *testing.B) {
	broker := startBroker(b)
	rooms.SlowMember(b, func() *rooms.Node { return startNode(b, broker.url()) })
}

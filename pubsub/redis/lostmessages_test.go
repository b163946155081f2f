package redis_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

func roomOf(n *rooms.Node) rooms.Source    { return n.Hub.Topic("room.1") }
func patternOf(n *rooms.Node) rooms.Source { return n.Hub.Pattern("room.*") }

// A slow subscriber costs itself.
func TestSlowSubscriber(t *testing.T) {
	for name, to := range map[string]func(*rooms.Node) rooms.Source{"topic": roomOf,
		"pattern": patternOf} {
		t.Run(name, func(t *testing.T) {
			b := broker.Start(t, "--appendonly", "no")
			rooms.SlowSubscriber(t, startNode(t, b.URL()).Node, startNode(t, b.URL()).Node, to)
		})
	}
}

// What is lost on the way is counted, wherever that was.
func TestFlood(t *testing.T) {
	for name, to := range map[string]func(*rooms.Node) rooms.Source{"topic": roomOf,
		"pattern": patternOf} {
		t.Run(name, func(t *testing.T) {
			b := broker.Start(t, "--appendonly", "no")
			rooms.Flood(t, startNode(t, b.URL()).Node, startNode(t, b.URL()).Node, to)
		})
	}
}

// A stream that is trimmed while it is read: what went unread counts as dropped, ends a subscriber
// with Disconnect, and is logged once.
func TestTrimmedWhileRead(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	log := new(logtext.Buffer)
	one := startNodeLogging(t, b.URL(), log)
	room := one.Hub.Topic("room")
	at := one.Follow(room, pubsub.Options{})
	strict := one.Follow(room, pubsub.Options{Policy: pubsub.Disconnect})
	fill := func(from, to string) { // all of it before the reader sees anything
		b.Do("EVAL", "for i="+from+","+to+" do redis.call('XADD','lwango:topic:room','*',"+
			"'id','x-'..i,'time','1','count',i,'data','m'..i) end "+
			"redis.call('XTRIM','lwango:topic:room','MAXLEN',1) return 1", "0")
	}
	fill("1", "1")
	at.Expect("m1")
	strict.Expect("m1")
	fill("2", "5")
	at.Expect("m5")
	fill("6", "9")
	at.Expect("m9")
	at.Quiet()
	strict.Quiet()
	wait.Until(t, "both gaps are counted", func() bool { return at.Dropped() == 3+3 })
	wait.Until(t, "the strict one has ended", func() bool { return strict.Err() == pubsub.ErrLagged })
	if n := strings.Count(log.String(), "lost before they were read"); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// BenchmarkSlowMember is a room with and without a member that is slow: -benchtime 2000x is ten
// seconds.
func BenchmarkSlowMember(b *testing.B) {
	broker := broker.Start(b, "--appendonly", "no")
	rooms.SlowMember(b, func() *rooms.Node { return startNode(b, broker.URL()).Node })
}

package redis_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

func publish(topic *pubsub.Topic, texts ...string) {
	for _, text := range texts {
		topic.Publish([]byte(text))
	}
}

// numbered are n texts.
func numbered(prefix string, from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprintf("%s%d", prefix, i))
	}
	return texts
}

func TestOneRoomOfSeveralProcesses(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1, at2 := one.follow(room1, pubsub.Options{}), two.follow(room2, pubsub.Options{})

	at1.hears(room1, numbered("a", 0, 100)...)
	at2.expect(numbered("a", 0, 100)...)
	publish(room2, "b")
	at2.expect("b")
	at1.expect("b")

	// A process that comes later gets the history, and what it says itself.
	three := startNode(t, b.URL())
	room3 := three.hub.Topic("room")
	at3 := three.follow(room3, pubsub.Options{History: 3})
	publish(room3, "here I am")
	said := append(numbered("a", 0, 100), "b")
	at3.expectEnd(said, 2, "here I am")
	at1.expect("here I am")
	at2.expect("here I am")

	// The last of a process leaves and comes back.
	close(at3.done)
	publish(room1, "meanwhile")
	at1.expect("meanwhile")
	at2.expect("meanwhile")
	at3 = three.follow(room3, pubsub.Options{History: 2})
	at3.expectEnd(append(said, "meanwhile"), 1, "here I am")
	publish(room1, "end")
	for _, f := range []*follower{at1, at2, at3} {
		f.expect("end")
		f.quiet()
	}
	if !one.hub.Carried() {
		t.Error("not carried")
	}
}

func TestBrokerIsKilledAndRestarted(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1, at2 := one.follow(room1, pubsub.Options{}), two.follow(room2, pubsub.Options{})
	publish(room1, "up")
	at1.expect("up")
	at2.expect("up")

	stop, ended := make(chan struct{}), make(chan int)
	go func() { // goes on all the time
		n := 0
		for {
			select {
			case <-stop:
				ended <- n
				return
			case <-time.After(time.Millisecond):
				publish(room1, fmt.Sprintf("a%d", n))
				n++
			}
		}
	}()
	at2.expect(numbered("a", 0, 100)...)
	b.Kill()
	one.status.expect("local")
	two.status.expect("local")
	publish(room2, "b0", "b1")
	at2own := []string{at2.next(), at2.next()}
	b.Restart()
	one.status.expect("carried")
	two.status.expect("carried")
	close(stop)
	n := <-ended
	at1All, at2All := collect(at1, n+2), append(at2own, collect(at2, n-100+2-2)...)
	checkOrder(t, at1All, map[string][2]int{"a": {0, n}, "b": {0, 2}})
	checkOrder(t, at2All, map[string][2]int{"a": {100, n}, "b": {0, 2}})
	publish(room1, "end")
	at1.expect("end")
	at2.expect("end")
	if one.engine.Lost()+two.engine.Lost() > 0 {
		t.Error("lost")
	}
}

func collect(f *follower, n int) (texts []string) {
	f.t.Helper()
	for range n {
		texts = append(texts, f.next())
	}
	return texts
}

// checkOrder checks that all numbers of each prefix are there, once and in order.
func checkOrder(t *testing.T, texts []string, want map[string][2]int) {
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

func TestBrokerStandsStill(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1, at2 := one.follow(room1, pubsub.Options{}), two.follow(room2, pubsub.Options{})
	publish(room1, "up")
	at1.expect("up")
	at2.expect("up")

	b.Signal(syscall.SIGSTOP)
	at1.hears(room1, numbered("a", 0, 1000)...)
	one.status.expect("local")
	two.status.expect("local")
	at2.quiet()
	// no broker can give the history
	late := one.follow(one.hub.Topic("other"), pubsub.Options{History: 10})
	publish(one.hub.Topic("other"), "x")
	late.expect("x")
	b.Signal(syscall.SIGCONT)
	at2.expect(numbered("a", 0, 1000)...)
	one.status.expect("carried")
	two.status.expect("carried")
	publish(room2, "end")
	at2.expect("end")
	at1.expect("end")
	late.quiet()
}

// Readers come with the topics, and go with them.
func TestManyTopics(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	const topics = 3*redis.PerReader + 1
	var there []*follower
	for i := range topics {
		there = append(there, two.follow(two.hub.Topic(fmt.Sprint(i)), pubsub.Options{}))
	}
	if n := two.engine.Readers(); n != 4 {
		t.Errorf("%d readers", n)
	}
	for i := range topics {
		publish(one.hub.Topic(fmt.Sprint(i)), "x", "y")
	}
	for _, f := range there {
		f.expect("x", "y")
		close(f.done)
	}
	wait.Until(t, "one reader", func() bool { return two.engine.Readers() <= 1 })
	last := two.follow(two.hub.Topic("last"), pubsub.Options{})
	publish(one.hub.Topic("last"), "z")
	last.expect("z")
	if !two.hub.Carried() {
		t.Error("not carried")
	}
}

// A reader that blocks hears at once of another topic: one after the other, they would take its
// heartbeat each.
func TestFollowWakesTheReader(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	const topics = 20
	start := time.Now()
	for i := range topics {
		name := fmt.Sprint(i)
		publish(one.hub.Topic(name), "x")
		one.acknowledged()
		two.follow(two.hub.Topic(name), pubsub.Options{History: 1}).expect("x")
	}
	if took := time.Since(start); took > topics*redis.Heartbeat/2 {
		t.Errorf("%d topics take %v", topics, took)
	}
}

// Over a socket, with a password, and without the right one.
func TestPassword(t *testing.T) {
	b := broker.Start(t)
	socket := filepath.Join(t.TempDir(), "s")
	b.Kill()
	b.Args = []string{"--unixsocket", socket}
	b.Restart()
	b.Do("CONFIG SET requirepass secret")
	var log logtext.Buffer
	right, wrong := startNode(t, "unix://:secret@"+socket),
		startNodeLogging(t, "unix://:other-secret@"+socket, &log)
	wrong.status.expect("local")
	at := right.follow(right.hub.Topic("room"), pubsub.Options{History: 1})
	publish(right.hub.Topic("room"), "a")
	at.expect("a")
	if !right.hub.Carried() || strings.Contains(log.String(), "secret") ||
		!strings.Contains(log.String(), "WRONGPASS") {
		t.Errorf("log: %s", log.String())
	}
}

// The broker refuses a connection, with a password that it does not know yet, or because it has too
// many: that is its answer, though no command was carried out, and nothing of what waits is lost.
func TestRefusedAtFirst(t *testing.T) {
	for _, row := range []struct{ why, url, refuse, accept, counter string }{
		{"password", "redis://:second@", "CONFIG SET requirepass first",
			"CONFIG SET requirepass second", "errorstat_WRONGPASS:count="},
		{"number", "redis://", "CONFIG SET maxclients 1", "CONFIG SET maxclients 100",
			"rejected_connections:"},
	} {
		t.Run(row.why, func(t *testing.T) {
			b := broker.Start(t)
			b.Do("XADD lwango:topic:room 1-1 id x-1 time 1 data before")
			do := b.Stay()
			do(row.refuse)
			one := startNode(t, fmt.Sprintf("%s127.0.0.1:%d", row.url, b.Port))
			one.status.expect("local")
			room := one.hub.Topic("room")
			at := one.follow(room, pubsub.Options{})
			at.hears(room, numbered("a", 0, 300)...)
			// the writer and the reader were refused
			wait.Until(t, "eight are refused", func() bool {
				_, count, _ := strings.Cut(fmt.Sprint(do("INFO everything")), row.counter)
				n := 0
				_, _ = fmt.Sscan(count, &n)
				return n >= 8
			})
			do(row.accept)
			one.status.expect("carried")
			one.acknowledged()
			if n := one.engine.Lost(); n > 0 {
				t.Errorf("lost %d", n)
			}
			publish(room, "end")
			at.expect("end")
			at.quiet() // what was before is no news
			one.acknowledged()
			two := startNode(t, fmt.Sprintf("%s127.0.0.1:%d", row.url, b.Port))
			history := two.follow(two.hub.Topic("room"), pubsub.Options{History: 64})
			history.expectEnd(append(numbered("a", 0, 300), "end"), 64)
		})
	}
}

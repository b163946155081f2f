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
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

func TestOneRoomOfSeveralProcesses(t *testing.T) {
	b := broker.Start(t)
	rooms.OneRoom(t, func() *rooms.Node { return startNode(t, b.URL()).Node })
}

func TestBrokerIsKilledAndRestarted(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	publish(room1, "up")
	at1.Expect("up")
	at2.Expect("up")

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
	at2.Expect(numbered("a", 0, 100)...)
	b.Kill()
	one.Status.Expect("local")
	two.Status.Expect("local")
	publish(room2, "b0", "b1")
	at2own := []string{at2.Next(), at2.Next()}
	b.Restart()
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	close(stop)
	n := <-ended
	at1All, at2All := at1.Collect(n+2), append(at2own, at2.Collect(n-100+2-2)...)
	checkOrder(t, at1All, map[string][2]int{"a": {0, n}, "b": {0, 2}})
	checkOrder(t, at2All, map[string][2]int{"a": {100, n}, "b": {0, 2}})
	publish(room1, "end")
	at1.Expect("end")
	at2.Expect("end")
	if one.engine.Lost()+two.engine.Lost() > 0 {
		t.Error("lost")
	}
}

func TestBrokerStandsStill(t *testing.T) {
	t.Parallel() // it mostly waits
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	publish(room1, "up")
	at1.Expect("up")
	at2.Expect("up")

	b.Signal(syscall.SIGSTOP)
	at1.Hears(room1, numbered("a", 0, 1000)...)
	one.Status.Expect("local")
	two.Status.Expect("local")
	at2.Quiet()
	// no broker can give the history
	late := one.Follow(one.Hub.Topic("other"), pubsub.Options{History: 10})
	publish(one.Hub.Topic("other"), "x")
	late.Expect("x")
	b.Signal(syscall.SIGCONT)
	at2.Expect(numbered("a", 0, 1000)...)
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	publish(room2, "end")
	at2.Expect("end")
	at1.Expect("end")
	late.Quiet()
}

// Readers come with the topics, and go with them.
func TestManyTopics(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	const topics = 3*redis.PerReader + 1
	var there []*follower
	for i := range topics {
		there = append(there, two.Follow(two.Hub.Topic(fmt.Sprint(i)), pubsub.Options{}))
	}
	if n := two.engine.Readers(); n != 4 {
		t.Errorf("%d readers", n)
	}
	for i := range topics {
		publish(one.Hub.Topic(fmt.Sprint(i)), "x", "y")
	}
	for _, f := range there {
		f.Expect("x", "y")
		close(f.Done)
	}
	wait.Until(t, "one reader", func() bool { return two.engine.Readers() <= 1 })
	last := two.Follow(two.Hub.Topic("last"), pubsub.Options{})
	publish(one.Hub.Topic("last"), "z")
	last.Expect("z")
	if !two.Hub.Carried() {
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
		publish(one.Hub.Topic(name), "x")
		one.Acknowledged()
		two.Follow(two.Hub.Topic(name), pubsub.Options{History: 1}).Expect("x")
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
	wrong.Status.Expect("local")
	at := right.Follow(right.Hub.Topic("room"), pubsub.Options{History: 1})
	publish(right.Hub.Topic("room"), "a")
	at.Expect("a")
	if !right.Hub.Carried() || strings.Contains(log.String(), "secret") ||
		!strings.Contains(log.String(), "WRONGPASS") {
		t.Errorf("log: %s", log.String())
	}
}

// The broker refuses a connection, with a password that it does not know yet, or because it has too
// many: that is its answer, though no command was carried out, and nothing of what waits is lost.
func TestRefusedAtFirst(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ why, url, refuse, accept, counter string }{
		{"password", "redis://:second@", "CONFIG SET requirepass first",
			"CONFIG SET requirepass second", "errorstat_WRONGPASS:count="},
		{"number", "redis://", "CONFIG SET maxclients 1", "CONFIG SET maxclients 100",
			"rejected_connections:"},
	} {
		t.Run(row.why, func(t *testing.T) {
			b := broker.Start(t)
			b.Do("XADD lwango:topic:room 1-1 id x-1 time 1 data before")
			do := b.KeepConn()
			do(row.refuse)
			one := startNode(t, fmt.Sprintf("%s127.0.0.1:%d", row.url, b.Port))
			one.Status.Expect("local")
			room := one.Hub.Topic("room")
			at := one.Follow(room, pubsub.Options{})
			at.Hears(room, numbered("a", 0, 300)...)
			// the writer and the reader were refused
			wait.Until(t, "eight are refused", func() bool {
				_, count, _ := strings.Cut(fmt.Sprint(do("INFO everything")), row.counter)
				n := 0
				_, _ = fmt.Sscan(count, &n)
				return n >= 8
			})
			do(row.accept)
			one.Status.Expect("carried")
			one.Acknowledged()
			if n := one.engine.Lost(); n > 0 {
				t.Errorf("lost %d", n)
			}
			publish(room, "end")
			at.Expect("end")
			at.Quiet() // what was before is no news
			one.Acknowledged()
			two := startNode(t, fmt.Sprintf("%s127.0.0.1:%d", row.url, b.Port))
			history := two.Follow(two.Hub.Topic("room"), pubsub.Options{History: 64})
			history.ExpectEnd(append(numbered("a", 0, 300), "end"), 64)
		})
	}
}

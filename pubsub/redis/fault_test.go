package redis_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// One process is cut off, and both sides go on. Then everybody has everything, in order.
func TestOneIsCutOff(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	w := startWire(t, b)
	rooms.CutOff(t, w.Wire, startNode(t, w.url()).Node, startNode(t, b.URL()).Node)
}

// Nobody is in a room, and the broker is away: that is said once, and the attempts become rare.
func TestCutOffWithoutTopics(t *testing.T) {
	t.Parallel() // it mostly waits
	b := broker.Start(t)
	w := startWire(t, b)
	one := startNode(t, w.url())
	w.Cut(true)
	one.Status.Expect("local")
	const attempts = 6
	start := time.Now()
	wait.Until(t, "six attempts", func() bool { return w.Attempts() >= attempts })
	// at least half of 50, 100, 200 and 400
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("%d attempts in %v", attempts, took)
	}
	one.Status.Quiet()
	if one.Hub.Carried() {
		t.Error("carried")
	}
	w.Cut(false)
	one.Status.Expect("carried")
}

// The connections break again and again while both publish: acknowledgements are lost, and batches
// are sent twice.
func TestConnectionsBreak(t *testing.T) {
	t.Parallel()
	b := broker.Start(t)
	w1, w2 := startWire(t, b), startWire(t, b)
	one, two := startNode(t, w1.url()), startNode(t, w2.url())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	const each = 1500
	var publishing sync.WaitGroup
	for prefix, room := range map[string]*pubsub.Topic{"a": room1, "b": room2} {
		publishing.Go(func() {
			for i, text := range numbered(prefix, 0, each) {
				publish(room, text)
				if i%10 == 0 {
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { publishing.Wait(); close(done) }()
	for n := 0; ; n++ {
		select {
		case <-done:
		case <-time.After(20 * time.Millisecond):
			w := []wire{w1, w2}[n%2]
			w.Cut(true)
			w.Cut(false)
			continue
		}
		break
	}
	for _, f := range []*follower{at1, at2} {
		checkOrder(t, f.Collect(2*each), map[string][2]int{"a": {0, each}, "b": {0, each}})
		f.Quiet()
	}
}

// The broker forgets everything, with and without its connections.
func TestBrokerIsEmptied(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	both := func(room *pubsub.Topic, texts ...string) {
		t.Helper()
		publish(room, texts...)
		at1.Expect(texts...)
		at2.Expect(texts...)
	}
	both(room1, numbered("a", 0, 50)...)
	b.Do("FLUSHALL")
	both(room1, "b")
	both(room2, "c")
	b.Kill()
	one.Status.Expect("local")
	two.Status.Expect("local")
	b.Restart()
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	both(room1, "d")
	both(room2, "e")
	// Its numbers begin anew, far below those that were read.
	b.Do("FLUSHALL")
	b.Do("XADD lwango:topic:room 1-1 id x-1 time 1 data low")
	b.Do("CLIENT KILL TYPE normal")
	at1.Expect("low")
	at2.Expect("low")
	one.Status.Expect("local", "carried")
	two.Status.Expect("local", "carried")
	b.Do("XADD lwango:topic:room 1-2 id x-2 time 1 data lower")
	at1.Expect("lower")
	at2.Expect("lower")
	both(room1, "f")
	at1.Quiet()
	at2.Quiet()
}

// The broker closes a connection while the reader is busy with what it has read, and forgets
// everything. The client would open another one, and say nothing.
func TestClosedBetweenReads(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	one := startNode(t, b.URL())
	at1 := one.Follow(one.Hub.Topic("room"), pubsub.Options{Queue: 2})
	b.Do("XADD lwango:topic:room * id x-1 time 1 data a")
	at1.Expect("a")
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	must.Do(t, one.Loops.All[0].Post(func() { <-held }))
	for i := range 8 { // of which the reader waits to deliver the last, a quarter of a second
		b.Do(fmt.Sprintf("XADD lwango:topic:room * id x-%d time 1 data b", i+2))
	}
	b.Do("FLUSHALL")
	b.Do("XADD lwango:topic:room 1-1 id y-1 time 1 data low")
	b.Do("CLIENT KILL TYPE normal")
	release()
	at1.Until("low")
	one.Status.Expect("local", "carried")
}

// A process misses more than the stream keeps: it gets what is there, in order.
func TestStreamIsTrimmedMeanwhile(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	room2 := two.Hub.Topic("room")
	at1, at2 := one.Follow(one.Hub.Topic("room"), pubsub.Options{}),
		two.Follow(room2, pubsub.Options{})
	publish(room2, "up")
	at1.Expect("up")
	at2.Expect("up")
	w.Cut(true)
	one.Status.Expect("local")
	publish(room2, numbered("a", 0, 500)...)
	two.Acknowledged()
	b.Do("XTRIM lwango:topic:room MAXLEN 100")
	w.Cut(false)
	at1.Expect(numbered("a", 400, 500)...)
	one.Status.Expect("carried")
	publish(room2, "end")
	at1.Expect("end")
}

// What waits for the broker is bounded: the oldest is given up, and counted.
func TestQueueIsBounded(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1 := one.Hub.Topic("room")
	at2 := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(room1, "up")
	at2.Expect("up")
	one.Acknowledged()
	b.Kill()
	one.Status.Expect("local")
	two.Status.Expect("local")
	const more, batch = 1000, 128 // which the writer may have in its hands
	n := redis.MaxQueued + more
	publish(room1, numbered("a", 0, n)...)
	if lost := one.engine.Lost(); lost > more || lost < more-batch ||
		lost+one.engine.Pending() != n {
		t.Errorf("lost %d", lost)
	}
	big := one.Hub.Topic("big") // more bytes than there may be
	for range 40 {
		big.Publish(make([]byte, 1<<20))
	}
	if lost, pending := one.engine.Lost(), one.engine.Pending(); lost+pending != n+40 ||
		pending > batch+32 {
		t.Errorf("lost %d, and %d wait", lost, pending)
	}
	publish(room1, "end")
	b.Restart()
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	at2.Until("end") // the little that was left
	at2.Quiet()
}

func TestClose(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at2 := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(one.Hub.Topic("room"), numbered("a", 0, 1000)...)
	one.Stop(limit)
	if one.Unsent != 0 {
		t.Errorf("%d not sent", one.Unsent)
	}
	at2.Expect(numbered("a", 0, 1000)...)

	// The broker does not answer: Close takes the grace period, and little more.
	b.Signal(syscall.SIGSTOP)
	defer b.Signal(syscall.SIGCONT)
	publish(two.Hub.Topic("room"), numbered("b", 0, 10)...)
	start := time.Now()
	two.Stop(50 * time.Millisecond)
	if two.Unsent != 10 || time.Since(start) > 20*time.Second {
		t.Errorf("%d not sent, after %v", two.Unsent, time.Since(start))
	}
	publish(two.Hub.Topic("room"), "afterwards") // reaches no subscriber

	// Nor does a subscriber wait for history then.
	ended := make(chan error)
	loops.Run(t, func(th *loop.Thread) {
		m, err := two.Hub.Topic("room").Subscribe(th, pubsub.Options{History: 1}).Receive(limit)
		if err == nil && string(m.Data) != "afterwards" {
			t.Errorf("%q", m.Data)
		}
		go func() { ended <- err }()
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The broker comes later than the process.
func TestBrokerIsNotThere(t *testing.T) {
	b := broker.Start(t)
	b.Kill()
	one := startNode(t, b.URL())
	room1 := one.Hub.Topic("room")
	at1 := one.Follow(room1, pubsub.Options{History: 10})
	publish(room1, numbered("a", 0, 3)...)
	at1.Expect(numbered("a", 0, 3)...)
	if one.Hub.Carried() {
		t.Error("carried")
	}
	b.Restart()
	two := startNode(t, b.URL())
	at2 := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(two.Hub.Topic("room"), "b")
	at1.Until("b")
	at1.Quiet()
	at2.Until("b")
	three := startNode(t, b.URL())
	wait.Until(t, "the first is carried again", one.Hub.Carried)
	got := three.Follow(three.Hub.Topic("room"), pubsub.Options{History: 10}).Collect(4)
	if s := strings.Join(got, " "); strings.Replace(s, "b ", "", 1) != "a0 a1 a2" &&
		s != "a0 a1 a2 b" {
		t.Errorf("history: %q", got)
	}
}

func TestCheck(t *testing.T) {
	for _, url := range []string{"redis://localhost", "redis://u:p@[::1]:7000/3",
		"rediss://host:6379", "unix:///run/redis.sock?db=2",
		"redis://u:p%2Fw@host"} {
		if err := redis.Check(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{"", "redis", "redis://", "http://u:secret@host",
		"redis://u:sec ret@host", "redis://u:secret@host:port",
		"redis://u:1#secret@host", "redis://u:1?secret@host", "redis://u:1/secret@host",
		"redis://u:secret%2@host",
		"redis://u:secret@host/1/2", "redis://u:secret@host?what=secret", "redis://u:secret@ho st",
		"://u:secret@host"} {
		err := redis.Check(url)
		if err == nil || strings.Contains(strings.ReplaceAll(err.Error(), "unexpected option", ""),
			"secret") {
			t.Errorf("%s: %v", url, err)
		}
		if _, err2 := redis.Start(new(pubsub.Hub), url,
			slog.Default()); fmt.Sprint(err2) != fmt.Sprint(err) {
			t.Errorf("%s: Start: %v", url, err2)
		}
	}
}

// A topic whose messages are of no use for long is soon forgotten, and that is no loss that a log
// has to tell of.
func TestKeep(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	log := new(logtext.Buffer)
	one, two := startNodeLogging(t, w.url(), log), startNode(t, b.URL())
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1 := one.Follow(room1, pubsub.Options{})
	ttl := func() time.Duration {
		two.Acknowledged()
		return time.Duration(b.Do("PTTL lwango:topic:room").(int64)) * time.Millisecond
	}
	publish(room2, "long")
	at1.Expect("long")
	if d := ttl(); d < 23*time.Hour {
		t.Errorf("forgotten after %v", d)
	}
	room2.PublishFor(time.Minute, []byte("brief"))
	at1.Expect("brief")
	if d := ttl(); d <= 0 || d > time.Minute {
		t.Errorf("forgotten after %v, not a minute", d)
	}
	room2.PublishFor(time.Millisecond, []byte("briefer")) // gone, perhaps, before it is read
	wait.Until(t, "the topic is forgotten", func() bool {
		return b.Do("EXISTS lwango:topic:room").(int64) == 0
	})
	w.Cut(true)
	one.Status.Expect("local")
	w.Cut(false)
	one.Status.Expect("carried")
	room2.PublishFor(time.Minute, []byte("next"))
	at1.Until("next")
	if got := log.String(); strings.Contains(got, "missing") {
		t.Errorf("the log says: %s", got)
	}
}

// A broker that is slow: what it says comes in pieces, each 20 ms after the one before.
func TestSlowBroker(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, b.URL()), startNode(t, w.url())
	at := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(one.Hub.Topic("room"), "up")
	at.Expect("up")
	w.Slow(20 * time.Millisecond)
	publish(one.Hub.Topic("room"), numbered("a", 0, 500)...)
	publish(two.Hub.Topic("room"), "mine")
	got := at.Collect(100)
	w.Slow(0)
	got = append(got, at.Collect(401)...)
	got = slices.DeleteFunc(got, func(text string) bool { return text == "mine" })
	checkOrder(t, got, map[string][2]int{"a": {0, 500}})
	at.Quiet()
}

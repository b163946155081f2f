package redis_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// One process is cut off, and both sides go on. Then everybody has everything, in order.
func TestOneIsCutOff(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1, at2 := one.follow(room1, pubsub.Options{}), two.follow(room2, pubsub.Options{})
	publish(room1, "up")
	at1.expect("up")
	at2.expect("up")
	for round := range 3 {
		w.set(true)
		one.status.expect("local")
		from, to := 300*round, 300*(round+1)
		at1.hears(room1, numbered("a", from, to)...)
		at2.hears(room2, numbered("b", from, to)...)
		w.set(false)
		one.status.expect("carried")
		at1.expect(numbered("b", from, to)...)
		at2.expect(numbered("a", from, to)...)
	}
	two.status.quiet()
	at1.quiet()
	at2.quiet()
}

// Nobody is in a room, and the broker is away: that is said once, and the attempts become rare.
func TestCutOffWithoutTopics(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one := startNode(t, w.url())
	w.set(true)
	one.status.expect("local")
	const attempts = 6
	start := time.Now()
	wait.Until(t, "six attempts", func() bool { return w.attempts() >= attempts })
	// at least half of 50, 100, 200 and 400
	if took := time.Since(start); took < 200*time.Millisecond {
		t.Errorf("%d attempts in %v", attempts, took)
	}
	one.status.quiet()
	if one.hub.Carried() {
		t.Error("carried")
	}
	w.set(false)
	one.status.expect("carried")
}

// The connections break again and again while both publish: acknowledgements are lost, and batches
// are sent twice.
func TestConnectionsBreak(t *testing.T) {
	b := broker.Start(t)
	w1, w2 := startWire(t, b), startWire(t, b)
	one, two := startNode(t, w1.url()), startNode(t, w2.url())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1, at2 := one.follow(room1, pubsub.Options{}), two.follow(room2, pubsub.Options{})
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
			w := []*wire{w1, w2}[n%2]
			w.set(true)
			w.set(false)
			continue
		}
		break
	}
	for _, f := range []*follower{at1, at2} {
		checkOrder(t, collect(f, 2*each), map[string][2]int{"a": {0, each}, "b": {0, each}})
		f.quiet()
	}
}

// The broker forgets everything, with and without its connections.
func TestBrokerIsEmptied(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1, at2 := one.follow(room1, pubsub.Options{}), two.follow(room2, pubsub.Options{})
	both := func(room *pubsub.Topic, texts ...string) {
		t.Helper()
		publish(room, texts...)
		at1.expect(texts...)
		at2.expect(texts...)
	}
	both(room1, numbered("a", 0, 50)...)
	b.Do("FLUSHALL")
	both(room1, "b")
	both(room2, "c")
	b.Kill()
	one.status.expect("local")
	two.status.expect("local")
	b.Restart()
	one.status.expect("carried")
	two.status.expect("carried")
	both(room1, "d")
	both(room2, "e")
	// Its numbers begin anew, far below those that were read.
	b.Do("FLUSHALL")
	b.Do("XADD lwango:topic:room 1-1 id x-1 time 1 data low")
	b.Do("CLIENT KILL TYPE normal")
	at1.expect("low")
	at2.expect("low")
	one.status.expect("local", "carried")
	two.status.expect("local", "carried")
	b.Do("XADD lwango:topic:room 1-2 id x-2 time 1 data lower")
	at1.expect("lower")
	at2.expect("lower")
	both(room1, "f")
	at1.quiet()
	at2.quiet()
}

// The broker closes a connection while the reader is busy with what it has read, and forgets
// everything. The client would open another one, and say nothing.
func TestClosedBetweenReads(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	one := startNode(t, b.URL())
	at1 := one.follow(one.hub.Topic("room"), pubsub.Options{Queue: 2})
	b.Do("XADD lwango:topic:room * id x-1 time 1 data a")
	at1.expect("a")
	held := make(chan struct{})
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	must.Do(t, one.loops.All[0].Post(func() { <-held }))
	for i := range 8 { // of which the reader waits to deliver the last, a quarter of a second
		b.Do(fmt.Sprintf("XADD lwango:topic:room * id x-%d time 1 data b", i+2))
	}
	b.Do("FLUSHALL")
	b.Do("XADD lwango:topic:room 1-1 id y-1 time 1 data low")
	b.Do("CLIENT KILL TYPE normal")
	release()
	at1.until("low")
	one.status.expect("local", "carried")
}

// A process misses more than the stream keeps: it gets what is there, in order.
func TestStreamIsTrimmedMeanwhile(t *testing.T) {
	b := broker.Start(t)
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	room2 := two.hub.Topic("room")
	at1, at2 := one.follow(one.hub.Topic("room"), pubsub.Options{}),
		two.follow(room2, pubsub.Options{})
	publish(room2, "up")
	at1.expect("up")
	at2.expect("up")
	w.set(true)
	one.status.expect("local")
	publish(room2, numbered("a", 0, 500)...)
	two.acknowledged()
	b.Do("XTRIM lwango:topic:room MAXLEN 100")
	w.set(false)
	at1.expect(numbered("a", 400, 500)...)
	one.status.expect("carried")
	publish(room2, "end")
	at1.expect("end")
}

// What waits for the broker is bounded: the oldest is given up, and counted.
func TestQueueIsBounded(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	room1 := one.hub.Topic("room")
	at2 := two.follow(two.hub.Topic("room"), pubsub.Options{})
	publish(room1, "up")
	at2.expect("up")
	one.acknowledged()
	b.Kill()
	one.status.expect("local")
	two.status.expect("local")
	const more, batch = 1000, 128 // which the writer may have in its hands
	n := redis.MaxQueued + more
	publish(room1, numbered("a", 0, n)...)
	if lost := one.engine.Lost(); lost > more || lost < more-batch ||
		lost+one.engine.Pending() != n {
		t.Errorf("lost %d", lost)
	}
	big := one.hub.Topic("big") // more bytes than there may be
	for range 40 {
		big.Publish(make([]byte, 1<<20))
	}
	if lost, pending := one.engine.Lost(), one.engine.Pending(); lost+pending != n+40 ||
		pending > batch+32 {
		t.Errorf("lost %d, and %d wait", lost, pending)
	}
	publish(room1, "end")
	b.Restart()
	one.status.expect("carried")
	two.status.expect("carried")
	at2.until("end") // the little that was left
	at2.quiet()
}

func TestClose(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at2 := two.follow(two.hub.Topic("room"), pubsub.Options{})
	publish(one.hub.Topic("room"), numbered("a", 0, 1000)...)
	one.stop(limit)
	if one.unsent != 0 {
		t.Errorf("%d not sent", one.unsent)
	}
	at2.expect(numbered("a", 0, 1000)...)

	// The broker does not answer: Close takes the grace period, and little more.
	b.Signal(syscall.SIGSTOP)
	defer b.Signal(syscall.SIGCONT)
	publish(two.hub.Topic("room"), numbered("b", 0, 10)...)
	start := time.Now()
	two.stop(50 * time.Millisecond)
	if two.unsent != 10 || time.Since(start) > 20*time.Second {
		t.Errorf("%d not sent, after %v", two.unsent, time.Since(start))
	}
	publish(two.hub.Topic("room"), "afterwards") // reaches no subscriber

	// Nor does a subscriber wait for history then.
	ended := make(chan error)
	loops.Run(t, func(th *loop.Thread) {
		m, err := two.hub.Topic("room").Subscribe(th, pubsub.Options{History: 1}).Receive(limit)
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
	room1 := one.hub.Topic("room")
	at1 := one.follow(room1, pubsub.Options{History: 10})
	publish(room1, numbered("a", 0, 3)...)
	at1.expect(numbered("a", 0, 3)...)
	if one.hub.Carried() {
		t.Error("carried")
	}
	b.Restart()
	two := startNode(t, b.URL())
	at2 := two.follow(two.hub.Topic("room"), pubsub.Options{})
	publish(two.hub.Topic("room"), "b")
	at1.until("b")
	at1.quiet()
	at2.until("b")
	three := startNode(t, b.URL())
	wait.Until(t, "the first is carried again", one.hub.Carried)
	got := collect(three.follow(three.hub.Topic("room"), pubsub.Options{History: 10}), 4)
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
	room1, room2 := one.hub.Topic("room"), two.hub.Topic("room")
	at1 := one.follow(room1, pubsub.Options{})
	ttl := func() time.Duration {
		two.acknowledged()
		return time.Duration(b.Do("PTTL lwango:topic:room").(int64)) * time.Millisecond
	}
	publish(room2, "long")
	at1.expect("long")
	if d := ttl(); d < 23*time.Hour {
		t.Errorf("forgotten after %v", d)
	}
	room2.PublishFor(time.Minute, []byte("brief"))
	at1.expect("brief")
	if d := ttl(); d <= 0 || d > time.Minute {
		t.Errorf("forgotten after %v, not a minute", d)
	}
	room2.PublishFor(time.Millisecond, []byte("briefer")) // gone, perhaps, before it is read
	wait.Until(t, "the topic is forgotten", func() bool {
		return b.Do("EXISTS lwango:topic:room").(int64) == 0
	})
	w.set(true)
	one.status.expect("local")
	w.set(false)
	one.status.expect("carried")
	room2.PublishFor(time.Minute, []byte("next"))
	at1.until("next")
	if got := log.String(); strings.Contains(got, "missing") {
		t.Errorf("the log says: %s", got)
	}
}

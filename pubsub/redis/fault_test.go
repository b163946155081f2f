package redis_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
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

// wire is what lies between one node and the broker, and can be cut.
type wire struct {
	t  testing.TB
	ln net.Listener

	mu    sync.Mutex
	to    *broker.Broker
	cut   bool
	tried int // connections that came while it was cut
	conns map[net.Conn]bool
	ended sync.WaitGroup
}

func startWire(t testing.TB, b *broker.Broker) *wire {
	ln := must.Listen(t)
	w := &wire{t: t, ln: ln, to: b, conns: map[net.Conn]bool{}}
	w.ended.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.ended.Go(func() { w.serve(c) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		w.set(true)
		w.ended.Wait()
	})
	return w
}

func (w *wire) serve(c net.Conn) {
	defer c.Close()
	w.mu.Lock()
	address := fmt.Sprintf("127.0.0.1:%d", w.to.Port)
	w.mu.Unlock()
	up, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer up.Close()
	if !w.keep(c, up) {
		return
	}
	go func() { _, _ = io.Copy(up, c); up.Close() }()
	_, _ = io.Copy(c, up)
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	if w.cut {
		w.tried++
	}
	return !w.cut
}

// set cuts the wire, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut = cut; cut {
		for c := range w.conns {
			c.Close()
		}
		clear(w.conns)
	}
}

// move makes new connections lead to another broker. Those that are open stay where they are.
func (w *wire) move(to *broker.Broker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// attempts returns how many connections have come to nothing.
func (w *wire) attempts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tried
}

func (w *wire) url() string { return "redis://" + w.ln.Addr().String() }

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

// A key that is something else than a stream is one topic's trouble.
func TestKeyIsSomethingElse(t *testing.T) {
	b := broker.Start(t)
	b.Do("SET lwango:topic:taken x")
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	taken1, room1 := one.hub.Topic("taken"), one.hub.Topic("room")
	atTaken, at2 := one.follow(taken1, pubsub.Options{History: 3}),
		two.follow(two.hub.Topic("room"), pubsub.Options{})
	publish(taken1, "here")
	publish(room1, "a")
	atTaken.expect("here")
	at2.expect("a")
	one.acknowledged()
	if one.engine.Lost() != 1 {
		t.Errorf("lost %d", one.engine.Lost())
	}
	// It becomes so while it is read.
	at1 := one.follow(room1, pubsub.Options{})
	other1, other2 := one.follow(one.hub.Topic("other"), pubsub.Options{}),
		two.follow(two.hub.Topic("other"), pubsub.Options{})
	publish(one.hub.Topic("other"), "x")
	other2.expect("x")
	other1.expect("x")
	b.Do("SET lwango:topic:room x")
	b.Do("CLIENT KILL TYPE normal")
	two.status.expect("local", "carried")
	one.status.expect("local", "carried")
	publish(room1, "only here")
	publish(one.hub.Topic("other"), "y")
	at1.expect("only here")
	other2.expect("y")
	// It is a stream again, after the next look.
	b.Do("DEL lwango:topic:room")
	b.Do("CLIENT KILL TYPE normal")
	two.status.expect("local", "carried")
	one.status.expect("local", "carried")
	publish(room1, "everywhere")
	at2.expect("everywhere")
}

// So it is if the topic had no messages before.
func TestKeyIsSomethingElseAtFirst(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	one.follow(one.hub.Topic("empty"), pubsub.Options{})
	other := one.follow(one.hub.Topic("other"), pubsub.Options{})
	publish(two.hub.Topic("other"), "x")
	other.expect("x") // read behind a look at all topics that were followed before
	b.Do("SET lwango:topic:empty x")
	b.Do("CLIENT KILL TYPE normal")
	one.status.expect("local", "carried")
	publish(two.hub.Topic("other"), "y")
	other.expect("y")
}

// A stream that takes no more is one topic's trouble, too, and no reason to send again what others
// have taken.
func TestStreamIsAtItsEnd(t *testing.T) {
	b := broker.Start(t)
	b.Do("XADD lwango:topic:full 18446744073709551615-18446744073709551615 a b")
	one := startNode(t, b.URL())
	publish(one.hub.Topic("full"), "x")
	one.acknowledged()
	publish(one.hub.Topic("room"), "y")
	publish(one.hub.Topic("full"), "x")
	one.acknowledged()
	if n := one.engine.Lost(); n != 2 {
		t.Errorf("lost %d", n)
	}
}

// Foreign entries in a stream are passed over.
func TestForeignEntries(t *testing.T) {
	b := broker.Start(t)
	for _, fields := range []string{"a b", "id x-1 time 1", "id -1 time 1 data x",
		"id x- time 1 data x", "id x-1 time y data x",
		"id " + strings.Repeat("x", 100) + "-1 time 1 data x"} {
		b.Do("XADD lwango:topic:room * " + fields)
	}
	b.Do("XADD lwango:topic:room * id x-1 time 1 data good")
	one := startNode(t, b.URL())
	at1 := one.follow(one.hub.Topic("room"), pubsub.Options{History: 10})
	at1.expect("good")
	b.Do("XADD lwango:topic:room * id x-1 time 1 data again")
	b.Do("XADD lwango:topic:room * id x-3 time 1 data better")
	b.Do("XADD lwango:topic:room * id x-2 time 1 data late")
	b.Do("XADD lwango:topic:room * id x-4 time 1 data best")
	at1.expect("better", "best")
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

package nats_test

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

// Who is there is known to three processes, one of which is killed, and after a new start of the
// broker.
func TestPresence(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	rooms.Presence(t, startNode(t, b.url()), b.url(), func() { b.kill(); b.restart() })
}

// Three processes speak in a room, and one of them is killed; then also the broker.
func TestThreeProcesses(t *testing.T) {
	b := startBroker(t)
	rooms.ThreeProcesses(t, startNode(t, b.url()), b.url(), nil)
	rooms.ThreeProcesses(t, startNode(t, b.url()), b.url(), func() { b.kill(); b.restart() })
}

// The broker is killed and comes again, while both speak.
func TestBrokerIsKilledAndRestarted(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	at1, at2 := one.Follow(one.Hub.Topic("room"), pubsub.Options{}),
		two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	stop := one.Traffic("room", "a")
	at2.Expect(numbered("a", 0, 100)...)
	b.kill()
	one.Status.Expect("local")
	two.Status.Expect("local")
	publish(two.Hub.Topic("room"), "b0", "b1")
	b.restart()
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	n := stop()
	one.Acknowledged()
	two.Acknowledged()
	checkOrder(t, at1.Collect(n+2), map[string][2]int{"a": {0, n}, "b": {0, 2}})
	checkOrder(t, at2.Collect(n+2-100), map[string][2]int{"a": {100, n}, "b": {0, 2}})
	at1.Quiet()
	at2.Quiet()
	if one.Engine.Lost()+two.Engine.Lost() > 0 {
		t.Error("lost")
	}
}

// The broker stands still, which breaks no connection: that is noticed, and nothing is lost.
func TestBrokerStandsStill(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	room1 := one.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(two.Hub.Topic("room"),
		pubsub.Options{})
	publish(room1, "up")
	at1.Expect("up")
	at2.Expect("up")
	b.signal(syscall.SIGSTOP)
	at1.Hears(room1, numbered("a", 0, 1000)...)
	one.Status.Expect("local")
	two.Status.Expect("local")
	// no broker can give the history
	late := one.Follow(one.Hub.Topic("other"), pubsub.Options{History: 10})
	publish(one.Hub.Topic("other"), "x")
	late.Expect("x")
	b.signal(syscall.SIGCONT)
	at2.Expect(numbered("a", 0, 1000)...)
	one.Status.Expect("carried")
	two.Status.Expect("carried")
	publish(two.Hub.Topic("room"), "end")
	at2.Expect("end")
	at1.Expect("end")
	late.Quiet()
	at2.Quiet()
}

// One process is cut off, again and again, and both sides go on.
func TestOneIsCutOff(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	rooms.CutOff(t, w, startNode(t, "nats://"+w.Addr()), startNode(t, b.url()))
}

// The connections break while both speak: acknowledgements are lost, and batches are sent twice.
func TestConnectionsBreak(t *testing.T) {
	b := startBroker(t)
	wires := []*rooms.Wire{rooms.StartWire(t, b.addr()), rooms.StartWire(t, b.addr())}
	one, two := startNode(t, "nats://"+wires[0].Addr()), startNode(t, "nats://"+wires[1].Addr())
	at1, at2 := one.Follow(one.Hub.Topic("room"), pubsub.Options{}),
		two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	stop1, stop2 := one.Traffic("room", "a"), two.Traffic("room", "b")
	var got []string
	for n := range 20 {
		got = append(got, at1.Collect(50)...) // of its own, if of no other
		wires[n%2].Cut(true)
		wires[n%2].Cut(false)
	}
	n, m := stop1(), stop2()
	got = append(got, at1.Collect(n+m-len(got))...)
	one.Acknowledged()
	two.Acknowledged()
	for _, texts := range [][]string{got, at2.Collect(n + m)} {
		checkOrder(t, texts, map[string][2]int{"a": {0, n}, "b": {0, m}})
	}
	at1.Quiet()
	at2.Quiet()
}

// A broker that is slow: what it says comes in pieces, each 50 ms after the one before. A topic of
// which more is published than that reads on from the stream, once and in order.
func TestSlowBroker(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	one, two := startNode(t, b.url()), startNode(t, "nats://"+w.Addr())
	at := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(one.Hub.Topic("room"), "up")
	at.Expect("up")
	w.Slow(50 * time.Millisecond)
	publish(one.Hub.Topic("room"), numbered("a", 0, 2000)...)
	publish(two.Hub.Topic("room"), "mine")
	var before []string // what had come already: on a busy machine, publishing takes a while
	for text := at.Next(); text != "mine"; text = at.Next() {
		before = append(before, text)
	}
	w.Slow(0)
	if !slices.Equal(before, numbered("a", 0, len(before))) || len(before) == 2000 {
		t.Errorf("before its own: %q", before)
	}
	at.Expect(numbered("a", len(before), 2000)...)
	two.Acknowledged()
	at.Quiet()
}

// The broker comes later than the process. What was published meanwhile to a topic that is followed
// is news, and what was before is not.
func TestBrokerIsNotThere(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	two := startNode(t, b.url())
	room2 := two.Hub.Topic("room")
	publish(room2, numbered("h", 0, 100)...)
	two.Acknowledged()
	w.Cut(true)
	one := startNode(t, "nats://"+w.Addr())
	one.Status.Expect("local")
	room1 := one.Hub.Topic("room")
	at1 := one.Follow(room1, pubsub.Options{History: 10})
	at1.Hears(room1, numbered("a", 0, 3)...)
	publish(room2, numbered("n", 0, 500)...)
	two.Acknowledged()
	w.Cut(false)
	at1.Expect(numbered("n", 0, 500)...)
	one.Status.Expect("carried")
	one.Acknowledged()
	at1.Quiet()
	three := startNode(t, b.url())
	at3 := three.Follow(three.Hub.Topic("room"), pubsub.Options{History: 64})
	if got := at3.Collect(64); got[63] != "a2" || got[60] != "n499" {
		t.Errorf("history: %q", got)
	}
}

// The stream is deleted, and another one comes in its place, whose numbers begin anew.
func TestStreamIsDeleted(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	at1, at2 := one.Follow(one.Hub.Topic("room"), pubsub.Options{}),
		two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	both := func(n *rooms.Node, texts ...string) {
		t.Helper()
		publish(n.Hub.Topic("room"), texts...)
		at1.Expect(texts...)
		at2.Expect(texts...)
	}
	both(one, numbered("a", 0, 50)...)
	js := must.Get(jetstream.New(b.client()))(t)
	must.Do(t, js.DeleteStream(t.Context(), "lwango"))
	both(one, "b")
	both(two, "c")
	both(one, numbered("d", 0, 100)...)
	at1.Quiet()
	at2.Quiet()
}

// Other clients of NATS read and write the topics by their subjects.
func TestOtherClients(t *testing.T) {
	b := startBroker(t)
	one := startNode(t, b.url())
	at := one.Follow(one.Hub.Topic("room.1 x"), pubsub.Options{})
	publish(one.Hub.Topic("room.1 x"), "up")
	at.Expect("up")
	one.Acknowledged()
	c := b.client()
	js := must.Get(jetstream.New(c))(t)
	for i := range 3 {
		must.Get(js.Publish(t.Context(), "lwango.topic.room.1=20x", fmt.Appendf(nil, "c%d", i)))(t)
	}
	at.Expect("c0", "c1", "c2")
	sub := must.Get(c.SubscribeSync("lwango.live.room.>"))(t)
	must.Do(t, c.Flush())
	publish(one.Hub.Topic("room.1 x"), "from here")
	at.Expect("from here")
	m := must.Get(sub.NextMsg(rooms.Limit))(t)
	if string(m.Data) != "from here" {
		t.Errorf("%q", m.Data)
	}
	two := startNode(t, b.url())
	two.Follow(two.Hub.Topic("room.1 x"), pubsub.Options{History: 2}).
		ExpectEnd([]string{"up", "c0", "c1", "c2", "from here"}, 2)
	at.Quiet()
}

func TestTokens(t *testing.T) {
	for topic, want := range map[string]string{
		"room": "room", "room.1": "room.1", "": "=", ".": "=.=", "a..b": "a.=.b", "a.": "a.=",
		"a b*>=": "a=20b=2A=3E=3D", "é": "=C3=A9", "user:7/x": "user:7/x",
	} {
		if got := nats.Token(topic); got != want {
			t.Errorf("%q: %q", topic, got)
		}
	}
	long := nats.Token(strings.Repeat("x", 5000))
	if len(long) != 65 || long == nats.Token(strings.Repeat("x", 5001)) {
		t.Errorf("%q", long)
	}
}

// What the server refuses is one message's trouble.
func TestRefused(t *testing.T) {
	b := startBroker(t, func(s *settings) { s.MaxPayload = 4096 })
	one, two := startNode(t, b.url()), startNode(t, b.url())
	at := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	room := one.Hub.Topic("room")
	publish(room, "a", strings.Repeat("x", 5000), "b")
	at.Expect("a", "b")
	one.Acknowledged()
	if n := one.Engine.Lost(); n != 1 {
		t.Errorf("lost %d", n)
	}
	// The header, which has a long name, counts, too.
	publish(one.Hub.Topic(strings.Repeat("é", 1600)), "x")
	publish(room, "and")
	at.Expect("and")
	one.Acknowledged()
	if n := one.Engine.Lost(); n != 2 {
		t.Errorf("lost %d", n)
	}
	// The stream takes less than the server.
	js := must.Get(jetstream.New(b.client()))(t)
	c := nats.Config("lwango", 1)
	c.MaxMsgSize = 1000
	must.Get(js.UpdateStream(t.Context(), c))(t)
	publish(room, "c", strings.Repeat("x", 2000), "d")
	at.Expect("c", "d")
	one.Acknowledged()
	if n := one.Engine.Lost(); n != 3 {
		t.Errorf("lost %d", n)
	}
}

// A topic whose messages are of no use for long is soon forgotten.
func TestKeep(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	at := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	one.Hub.Topic("room").PublishFor(time.Millisecond, []byte("brief"))
	at.Expect("brief")
	one.Hub.Topic("room").PublishFor(time.Hour, []byte("long"))
	at.Expect("long")
	js := must.Get(jetstream.New(b.client()))(t)
	s := must.Get(js.Stream(t.Context(), "lwango"))(t)
	wait.Until(t, "one is forgotten", func() bool {
		return must.Get(s.Info(t.Context()))(t).State.Msgs == 1
	})
	three := startNode(t, b.url())
	at3 := three.Follow(three.Hub.Topic("room"), pubsub.Options{History: 5})
	at3.Expect("long")
	publish(one.Hub.Topic("room"), "end")
	at.Expect("end")
	at3.Expect("end")
}

// A stream of that name that is none of lwango's is left alone, and the log says so.
func TestForeignStream(t *testing.T) {
	b := startBroker(t)
	js := must.Get(jetstream.New(b.client()))(t)
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "lwango",
		Subjects: []string{"other"}}))(t)
	var log logtext.Buffer
	one := startNodeLogging(t, b.url(), &log)
	one.Status.Expect("local")
	if text := log.String(); !strings.Contains(text,
		"the stream lwango is not of the subject lwango.topic.>") {
		t.Errorf("log: %s", text)
	}
	// It has a name of its own then.
	two := startNode(t, b.url()+"?stream=mine")
	at := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	three := startNode(t, b.url()+"?stream=mine")
	publish(three.Hub.Topic("room"), "a")
	at.Expect("a")
}

func TestClose(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	at2 := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(one.Hub.Topic("room"), numbered("a", 0, 1000)...)
	one.Stop(rooms.Limit)
	if one.Unsent != 0 {
		t.Errorf("%d not sent", one.Unsent)
	}
	at2.Expect(numbered("a", 0, 1000)...)

	// The broker does not answer: Close takes the grace period, and little more.
	b.signal(syscall.SIGSTOP)
	defer b.signal(syscall.SIGCONT)
	publish(two.Hub.Topic("room"), numbered("b", 0, 10)...)
	start := time.Now()
	two.Stop(50 * time.Millisecond)
	if two.Unsent != 10 || time.Since(start) > 20*time.Second {
		t.Errorf("%d not sent, after %v", two.Unsent, time.Since(start))
	}
}

// A user and a password, and the wrong one.
func TestPassword(t *testing.T) {
	b := startBroker(t, func(s *settings) { s.User, s.Password = "app", "s/cret" })
	right := startNode(t, "nats://app:s%2Fcret@"+b.addr())
	at := right.Follow(right.Hub.Topic("room"), pubsub.Options{History: 1})
	publish(right.Hub.Topic("room"), "a")
	at.Expect("a")
	right.Acknowledged()
	var log logtext.Buffer
	wrong := startNodeLogging(t, "nats://app:other-cret@"+b.addr(), &log)
	wrong.Status.Expect("local")
	if text := log.String(); strings.Contains(text, "cret") ||
		!strings.Contains(text, "Authorization Violation") {
		t.Errorf("log: %s", text)
	}
}

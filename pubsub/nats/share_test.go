package nats_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// join has a member of a process that receives nothing until it leaves.
func join(n *rooms.Node, topic string, o pubsub.Options) (leave func()) {
	end, joined, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	n.Loops.Go(0, func(th *loop.Thread) {
		defer close(left)
		sub := n.Hub.Topic(topic).Subscribe(th, o)
		close(joined)
		_, _ = th.AwaitAny(-1, loop.FromChan(end))
		sub.Unsubscribe()
	})
	<-joined
	return func() { close(end); <-left }
}

// all waits until a member has had all of some texts.
func all(t *testing.T, f *rooms.Follower, want []string) (got []string) {
	t.Helper()
	missing := slices.Clone(want)
	for len(missing) > 0 {
		text := f.Next()
		got = append(got, text)
		if i := slices.Index(missing, text); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
		}
	}
	return got
}

// A process whose members are busy has few of a queue group's messages, and when they leave others
// get those, which are older than what the others have had.
func TestQueueGroupLosesNothing(t *testing.T) {
	b := startBroker(t)
	one, two := startNode(t, b.url()), startNode(t, b.url())
	o := pubsub.Options{Group: "workers", Queue: 8}
	leave := join(one, "jobs", o)
	want := numbered("a", 0, 100)
	publish(two.Hub.Topic("jobs"), want...)
	two.Acknowledged()
	js := must.Get(jetstream.New(b.client()))(t)
	s := must.Get(js.Stream(t.Context(), "lwango"))(t)
	wait.Until(t, "the busy one has some", func() bool {
		has := 0
		for info := range s.ListConsumers(t.Context()).Info() {
			has += info.NumAckPending
		}
		return has > 0
	})
	at := two.Follow(two.Hub.Topic("jobs"), pubsub.Options{Group: "workers"})
	got := at.Collect(50)
	if slices.Contains(got, "a0") {
		t.Error("the busy one has nothing")
	}
	leave()
	for _, text := range got {
		want = slices.DeleteFunc(want, func(s string) bool { return s == text })
	}
	if got = append(got, all(t, at, want)...); len(got) != 100 {
		t.Errorf("%d messages have come", len(got))
	}
	at.Quiet()
}

// The one who has subscribed gets what is published from then on, by its own process, too, and when
// the server has forgotten the group meanwhile.
func TestQueueGroupBegins(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	one, two := startNode(t, "nats://"+w.Addr()), startNode(t, b.url())
	at := one.Follow(one.Hub.Topic("jobs"), pubsub.Options{Group: "workers"})
	publish(one.Hub.Topic("jobs"), "a", "b")
	at.Expect("a", "b")
	w.Cut(true)
	one.Status.Expect("local")
	publish(two.Hub.Topic("jobs"), "c")
	two.Acknowledged()
	js := must.Get(jetstream.New(b.client()))(t)
	s := must.Get(js.Stream(t.Context(), "lwango"))(t)
	for name := range s.ConsumerNames(t.Context()).Name() {
		must.Do(t, s.DeleteConsumer(t.Context(), name))
	}
	publish(one.Hub.Topic("jobs"), "d")
	w.Cut(false)
	all(t, at, []string{"c", "d"})
	at.Quiet()
}

// A pattern and a group go on when another stream has come in the place of theirs, also with what
// other clients publish.
func TestSelectionsOfStreamThatIsDeleted(t *testing.T) {
	b := startBroker(t)
	one := startNode(t, b.url())
	at := one.Follow(one.Hub.Pattern("room.*"), pubsub.Options{})
	jobs := one.Follow(one.Hub.Topic("room.jobs"), pubsub.Options{Group: "workers"})
	js := must.Get(jetstream.New(b.client()))(t)
	wait.Until(t, "there is a stream", func() bool {
		_, err := js.Stream(t.Context(), "lwango")
		return err == nil
	})
	say := func(from, to int) {
		for i := from; i < to; i++ {
			must.Get(js.Publish(t.Context(), "lwango.topic.room.jobs", fmt.Append(nil, "a", i)))(t)
		}
		at.Expect(numbered("a", from, to)...)
		all(t, jobs, numbered("a", from, to))
	}
	say(0, 20)
	old := must.Get(js.Stream(t.Context(), "lwango"))(t).CachedInfo().Created
	wait.Until(t, "its second is over", func() bool { return time.Now().Unix() > old.Unix() })
	must.Do(t, js.DeleteStream(t.Context(), "lwango"))
	wait.Until(t, "there is another stream", func() bool {
		_, err := js.Stream(t.Context(), "lwango")
		return err == nil
	})
	say(20, 25)
	at.Quiet()
	jobs.Quiet()
}

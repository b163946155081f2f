package redis_test

import (
	"fmt"
	"testing"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// The broker has forgotten everything when it is there again, and a process that publishes comes
// back before the one that follows a pattern: that gets what was published meanwhile.
func TestPatternComesBackLater(t *testing.T) {
	b := broker.Start(t, "--appendonly", "no")
	w := startWire(t, b)
	one, two := startNode(t, w.url()), startNode(t, b.URL())
	at := one.Follow(one.Hub.Pattern("room.*"), pubsub.Options{})
	heard(t, b)
	for i, forget := range []func(){
		func() {
			b.Kill()
			two.Status.Expect("local")
			publish(two.Hub.Topic("room.1"), "while it is away")
			b.Restart()
		},
		func() { // the client opens another connection, and says nothing
			b.Do("FLUSHALL")
			b.Do("CLIENT KILL TYPE normal")
			publish(two.Hub.Topic("room.1"), "while it is away")
		},
	} {
		publish(two.Hub.Topic("room.1"), fmt.Sprint("a", i))
		at.Expect(fmt.Sprint("a", i))
		w.Cut(true)
		wait.Until(t, "it is cut", func() bool { return !one.Hub.Carried() })
		forget()
		publish(two.Hub.Topic("room.1"), numbered("b", 0, 300)...)
		two.Acknowledged()
		w.Cut(false)
		at.Expect("while it is away")
		at.Expect(numbered("b", 0, 300)...)
		wait.Until(t, "it is carried", one.Hub.Carried)
	}
	at.Quiet()
}

// The broker refuses some of a batch: that does not hide that a pattern is followed.
func TestPatternBesideWhatIsRefused(t *testing.T) {
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	b.Do("SET lwango:topic:bad x")
	at := one.Follow(one.Hub.Pattern("good"), pubsub.Options{})
	heard(t, b)
	for i := range 10 {
		publish(two.Hub.Topic("bad"), "x")
		publish(two.Hub.Topic("good"), fmt.Sprint("a", i))
	}
	at.Expect(numbered("a", 0, 10)...)
	two.Acknowledged()
	if n := two.engine.Lost(); n != 10 {
		t.Errorf("lost %d", n)
	}
}
